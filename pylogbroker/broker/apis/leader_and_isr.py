"""LeaderAndIsr (4): the controller orders this broker to lead partitions and to follow others."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.broker.services import Services
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse


@serves(LeaderAndIsrRequest, access=[on_cluster(AclOperation.CLUSTER_ACTION)], cluster_only=True)
async def handle(services: Services, context: RequestContext, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
    return await services.membership.lead_and_follow(request, context.api_version)
