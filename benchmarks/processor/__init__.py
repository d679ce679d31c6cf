"""`python -m benchmarks.processor`: processor time of the reactor thread for each request, beside a floor.

    python -m benchmarks.processor                          # all works
    python -m benchmarks.processor produce-single           # one
    python -m benchmarks.processor --against HEAD~1         # beside another commit
    python -m benchmarks.processor --check                  # beside the ratios recorded for this machine
    python -m benchmarks.processor --record                 # record them

Broker and raw clients share one thread of one process. Only the iterations of the broker's reactor are timed. The clock
is that of the thread, which does not run while other processes have the processor. The floor is a bare epoll loop that
does the same work of the kernel. Broker and floor alternate, and the lowest of many samples counts.
"""
