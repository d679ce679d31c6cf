"""ACLs: who may do what on which resource, with the semantics of Kafka's StandardAuthorizer.

`bindings` has the values, `index` finds the ACLs of a resource, `authorizer` decides, and `tree_layout` has the form in
which the coordination tree keeps ACLs.
"""
