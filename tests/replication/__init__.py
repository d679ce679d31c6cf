"""Replication: transcripts of single rules, and a model of a whole cluster under faults.

    model_log         log as a list of (leader epoch, value)
    model_broker      broker with one replica: carries out its actions
    model_controller  controller of one partition, over a coordination tree
    cluster           brokers, controller and network; the end of all faults
    steps             what brokers, clients and faults do at random
    setup, runs       a seed gives the setup and all choices of a run
    invariants        checked after each step
    mutants           historical bugs, which the model must find

`python -m tests.replication --steps 1000000 --seed 1` runs the model for longer.
"""
