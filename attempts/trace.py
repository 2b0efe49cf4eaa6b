import sys; sys.path.insert(0,"."); sys.path.insert(0,"attempts")
open("/proc/self/autogroup","w").write("-6")
import torch; torch.set_num_threads(1)
from pathlib import Path
from tamis.lab.scene import PLACES, Scene
from tamis.selectors.plausible import agreements as ag
from tamis.selectors import Plausible
import variants
FOLDER = None
cell, var = sys.argv[1], sys.argv[2]
d,n,c = cell.split(",")
place=PLACES[d]; data=place.load(FOLDER)
scene=Scene(place,data,n,float(c),place.slots,0)
f=variants.VARIANTS[var]
sel=f(scene) if f.__code__.co_argcount else f()
tr=scene.trainer(sel,warm_up=0)
import tamis.selectors.plausible.selector as S
orig=S.Plausible.judge
st={}
def judge(self,cand,ids,new,distinct):
    v=orig(self,cand,ids,new,distinct)
    st["plaus"]=v.plausible.float().mean().item(); st["new"]=new.float().mean().item()
    return v
S.Plausible.judge=judge
upd=ag.Agreements.update
def update(self,cand,votes,probs,evid,by=None,new=None,distinct=0):
    upd(self,cand,votes,probs,evid,by,new,distinct)
    st["cand"]=(evid.argmax(1),votes.argmax(1),probs.argmax(1),cand.labels)
ag.Agreements.update=update
items=scene.stream(1)
every=place.slots//15
acc=[]
for t in range(place.slots):
    slot=tr.step(next(items,None))
    if t%every==every-1:
        a=sel.agreements; ca=sel.calibration
        A=tr.accuracy(data.test_inputs[:2000],data.test_labels[:2000]).ema
        tru=tr.held().clean.float().mean().item()
        conf=a._confirmed.value; back=a._backed.value
        bl=ca._ruled_out.log_likelihood(5000.); from tamis.noise.agreement import RATIOS; print(f"S {RATIOS[bl.argmax()]:.2f} {t+1:5d} acc {A:.3f} true {tru:.2f} | fit {ca.fitted.clean_ratio:.2f} T {ca.fitted.temperature:.2f} second {a.clean_ratio().item():.2f} used {ca.clean_ratio.item():.2f} T {float(ca.temperature):.2f} trust {float(ca.trust):.2f} | A {a.agreeing().item():.2f} J {a.judges().item():.2f} E {float(conf) if conf is not None else -1:.2f} B {float(back) if back is not None else -1:.2f} first {a.clean_ratio_at_first().item():.2f} even {float(a.evenness()):.2f} plaus {st['plaus']:.2f} new {st['new']:.2f}")
