"""TLS 1.2 and 1.3 by `ssl.SSLObject`, for brokers and clients.

| module      | content                                                  |
|-------------|----------------------------------------------------------|
| `settings`  | Kafka's settings `ssl.*` as one value                    |
| `stores`    | key stores and trust stores: PEM and PKCS12              |
| `ciphers`   | cipher suites by Java's names and OpenSSL's              |
| `contexts`  | settings and stores to OpenSSL's contexts                |
| `engine`    | one side of a connection, without I/O                    |
| `failures`  | causes of failed handshakes, in words                    |
| `names`     | distinguished names of certificates, as Java writes them |
| `authority` | certificates for trying out                              |
"""
