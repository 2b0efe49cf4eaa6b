from tamis.selectors import Plausible
from tamis.selectors.plausible import *
def C(**k): return lambda: Plausible(calibration=Calibration(**k))
VARIANTS = {
 "y20": C(), "y20.3": C(top=.3), "n20c": C(use_s=False), "y20.1": C(top=.1), "y20h": C(half=True), "y20t": C(full=False),
}
