"""Pages that need nothing else: of a fitted model, and the pieces of which experiments make theirs.

page    text, tables, pictures and charts as one HTML file
charts  interactive charts as values
trust   a traffic light for every thing that can be wrong with a fit
circumstances  what else bears on intervals of hidden cells
model   the page of a fitted model
"""

from gpbae.report.belief import ABOUT_TEMPERATURE, CAPTION_OF_TEMPERATURES
from gpbae.report.model import model_page
from gpbae.report.page import Chart, Picture, Section, Table, html
from gpbae.report.subject import count

__all__ = [
    "ABOUT_TEMPERATURE",
    "CAPTION_OF_TEMPERATURES",
    "Chart",
    "Picture",
    "Section",
    "Table",
    "count",
    "html",
    "model_page",
]
