"""The page: drag a target in a browser, watch the robot follow, read why a target is missed; needs the extra `page`.

page.py: the server, its visitors and the solving threads
visitor.py: one visitor and the queued actions; actions.py: the queue, one entry per kind of action
view.py: the view in a browser: stage.py, the scene; panel.py, the panel; and the waiting time of pending answers
words.py: texts of the panel; posed_robot.py: a robot and its targets, without graphics
local_solving.py, remote_solving.py: answers from this process or from a service; questions.py: the questions
request_texts.py: the last question as Python and as a shell command; geometry.py, drawing.py: pictures of a robot
"""

from ik_service.extras import needs

with needs("page", "The page"):
    from ik_service.page.local_solving import LocalSolving
    from ik_service.page.page import Page
    from ik_service.page.questions import PageError
    from ik_service.page.remote_solving import RemoteSolving

__all__ = ["LocalSolving", "Page", "PageError", "RemoteSolving"]
