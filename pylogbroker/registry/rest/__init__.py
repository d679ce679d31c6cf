"""Confluent's REST interface by subject: handlers of requests, what they get, and their routes."""
