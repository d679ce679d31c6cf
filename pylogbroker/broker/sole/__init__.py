"""A broker that is alone in its cluster: its role, its controller, and requests to it."""
