"""Parts that handlers of requests share: registration, context, limits, errors."""
