"""Control of a test broker by HTTP and JSON, for tests in other languages; `openapi.json` describes it."""
