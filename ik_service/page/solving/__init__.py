"""Whatever solves for the page: questions and answers, and who gives them, this process or a service."""
