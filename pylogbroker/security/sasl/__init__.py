"""SASL of both sides, without I/O: PLAIN (RFC 4616), SCRAM (RFC 5802, RFC 7677) and OAUTHBEARER (RFC 7628).

| module         | content                                                              |
|----------------|----------------------------------------------------------------------|
| `authentication` | states of a connection until its client is authenticated                      |
| `plain`        | the mechanism PLAIN                                                  |
| `scram`        | the mechanisms SCRAM-SHA-256 and SCRAM-SHA-512                       |
| `oauthbearer`  | the mechanism OAUTHBEARER, and tokens that nobody has signed          |
| `signed_tokens` | tokens that an issuer has signed                                    |
| `stored_credentials` | credentials of SCRAM in the coordination tree                  |
| `users`        | passwords and keys of users; stand-ins for users that do not exist   |
| `users_file`   | the file of the setting `users`                                      |
| `jaas`         | Java's syntax of logins                                              |
| `client`       | the mechanisms of the client's side                                  |
| `credentials`  | what a client authenticates with, from its settings                  |
"""
