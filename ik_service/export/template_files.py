"""The templates of the exported files: C, CMake and Markdown."""

from ik_service.template_files import TemplateFolder

TEMPLATES = TemplateFolder("ik_service.export")
filled = TEMPLATES.filled
