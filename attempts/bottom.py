import sys; sys.path.insert(0,"."); sys.path.insert(0,"attempts")
open("/proc/self/autogroup","w").write("-6")
import torch,math; torch.set_num_threads(1)
from pathlib import Path
from tamis.lab.scene import PLACES, Scene
from tamis.selectors import Plausible
import variants
from tamis.noise.agreement import *
FOLDER = None
def go(cell,var):
    d,n,c = cell.split(",")
    place=PLACES[d]; data=place.load(FOLDER)
    scene=Scene(place,data,n,float(c),place.slots,0)
    sel=variants.VARIANTS[var]()
    sel.calibration._ruled_out.known_after=1e9
    tr=scene.trainer(sel,warm_up=0)
    items=scene.stream(1); S=place.slots
    print(cell)
    for t in range(S):
        tr.step(next(items,None))
        if t+1 in (S//10,S//4,S//2,S):
            tru=tr.held().clean.float().mean().item(); C=scene.classes
            rows,hits,sq=sel.calibration._ruled_out._counts.double()
            s=f"[{tru:.2f}:"
            middle=(torch.arange(BINS,dtype=torch.float64)+.5)/BINS*HIGHEST_LOGIT
            for T in (.5,.7,1.,1.5,2.,3.):
                err=(-middle/T-math.log(C-1)).sigmoid()
                share=RATIOS[:,None]*err+(1-RATIOS[:,None])*(1-err)/(C-1)
                ll=share.log()@hits+(1-share).log()@(rows-hits)
                s+=f" T{T} {RATIOS[ll.argmax()]:.2f}({ll.max():.0f})"
            # implied at true r: error per bin coarse
            f=(hits/rows.clamp_min(1))
            g=[f"{i}:{f[i]:.3f}/{rows[i]/rows.sum():.2f}" for i in range(0,16) if rows[i]/rows.sum()>.04]
            print("   ",s,"| fit",round(sel.calibration.fitted.clean_ratio,2), f"floor {(1-tru)/(C-1):.3f}"," ".join(g), flush=True)
for cell in sys.argv[2:]: go(cell,sys.argv[1])
