"""HttpRouter of all HTTP interfaces: tables of routes, from which dispatch, checks and OpenAPI documents follow.

values       values of declared types: read from text and JSON, checked, described as JSON Schema
parameters   the parameters of a handler: what its function's signature says
routes       routes, and the router that finds one by method and path
openapi      the OpenAPI document of routes
requests     the parameters that a request of Twisted gives

A handler is a function, whose signature declares what a request may give and what the answer is:

    async def topics(visitor: Visitor, search: Search = "", start: Start = 0) -> Topics:
        "Return topics by name."

    HttpRoute("GET", "/api/topics", topics)

Parts of the path in braces, the query and the members of a JSON body are its parameters, by their names.
"""

from pylogbroker.web.router.openapi import ApiDescription, document
from pylogbroker.web.router.parameters import BadRequest
from pylogbroker.web.router.routes import HttpRoute, HttpRouter, MethodNotAllowed, NoRoute

__all__ = ["ApiDescription", "BadRequest", "HttpRoute", "HttpRouter", "MethodNotAllowed", "NoRoute", "document"]
