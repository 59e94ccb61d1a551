"""The page: drag a target in a browser, watch the robot follow, read why it does not; needs the extra `page`.

page.py: the server, its visitors and the threads that solve for them
visitor.py: one visitor, and what is to be done; actions.py: what is to be done, by kind
view.py: what a browser shows: stage.py, the scene, panel.py, and for how long answers have been awaited
words.py: what the panel says; posed_robot.py: a robot and its targets, without any picture
local_solving.py, remote_solving.py: who answers, this process or a service; questions.py: what is asked
request_texts.py: what was asked, as Python, shell commands and C; geometry.py, drawing.py: what a robot looks like
"""

from ik_service.extras import needs

with needs("page", "The page"):
    from ik_service.page.local_solving import LocalSolving
    from ik_service.page.page import Page
    from ik_service.page.questions import PageError
    from ik_service.page.remote_solving import RemoteSolving

__all__ = ["LocalSolving", "Page", "PageError", "RemoteSolving"]
