"""The ASGI layers and the connections of the HTTP server, web sockets included."""
