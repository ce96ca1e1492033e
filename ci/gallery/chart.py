"""Prints a chart of a page that `fascicle report` wrote as an SVG: chart.py PAGE TITLE > FILE."""

import re
import sys

if len(sys.argv) != 3:
    sys.exit("usage: chart.py PAGE TITLE > FILE")
charts = dict(re.findall(r"<h2>(.*?)</h2>\s*(<svg.*?</svg>)", open(sys.argv[1]).read(), re.DOTALL))
if sys.argv[2] not in charts:
    sys.exit(f"{sys.argv[1]} has no chart {sys.argv[2]}; it has: {', '.join(charts)}")
print(charts[sys.argv[2]])
