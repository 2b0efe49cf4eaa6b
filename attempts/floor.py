import sys; sys.path.insert(0,"."); sys.path.insert(0,"attempts")
open("/proc/self/autogroup","w").write("-6")
import torch; torch.set_num_threads(1)
from pathlib import Path
from tamis.lab.scene import PLACES, Scene
from tamis.selectors.plausible import agreements as ag
from tamis.selectors import Plausible
import variants
FOLDER = None
def go(cell,var):
    d,n,c = cell.split(",")
    place=PLACES[d]; data=place.load(FOLDER)
    scene=Scene(place,data,n,float(c),place.slots,0)
    f=variants.VARIANTS[var]
    sel=f(scene) if f.__code__.co_argcount else f()
    tr=scene.trainer(sel,warm_up=0)
    acc={}
    upd=ag.Agreements.update
    def update(self,cand,votes,probs,evid,by=None,new=None,distinct=0):
        upd(self,cand,votes,probs,evid,by,new,distinct)
        y=cand.labels
        C=probs.shape[1]
        def add(k,v,w=.02):
            acc[k]=v if k not in acc else acc[k]+w*(v-acc[k])
        for nm,p in (("e",evid),("v",votes),("p",probs),("i",by)):
            if p is None: continue
            low=p.argmin(1)
            add(nm, (y==low).float().mean().item())
        # lower half certain exclusions
        m=evid.softmax(1).amin(1); sel_=m<=m.median()
        add("eh", (y==evid.argmin(1))[sel_].float().mean().item())
        # lowest decile among all pairs of log-evidence softmax
        ls=evid.log_softmax(1); hit=torch.zeros_like(ls).scatter_(1,y[:,None],1)
        k=max(1,ls.numel()//20); idx=ls.flatten().topk(k,largest=False).indices
        add("e5", hit.flatten()[idx].mean().item())
    ag.Agreements.update=update
    items=scene.stream(1); S=place.slots
    out=[]
    for t in range(S):
        tr.step(next(items,None))
        if t+1 in (S//10,S//4,S//2,S):
            tru=tr.held().clean.float().mean().item(); C=scene.classes
            out.append(f"[{tru:.2f}: "+" ".join(f"{k} {1-(C-1)*v:.2f}" for k,v in acc.items())+f" | fit {sel.calibration.fitted.clean_ratio:.2f} use {sel.calibration.clean_ratio.item():.2f}]")
    ag.Agreements.update=upd
    print(cell, "\n   "+"\n   ".join(out), flush=True)
for cell in sys.argv[2:]: go(cell,sys.argv[1])
