"""What the clients send and receive: requests, replies, results and the messages of a stream."""
