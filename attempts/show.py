import csv, sys
from collections import defaultdict
rows=defaultdict(dict); est={}
for r in csv.reader(open("attempts/out.csv")):
    rows[(",".join(r[1:4]))].setdefault(r[0],[]).append(float(r[5]))
    est[(",".join(r[1:4]), r[0])]=(r[6],r[7],r[10],r[11],r[12])
ref=defaultdict(list)
for fn in ("results","peers"):
  for r in csv.DictReader(open(f"./results/structure/{fn}.csv")):
    ref[(f"{r['data']},{r['noise']},{float(r['clean_ratio']):g}", r["method"], int(r["seed"]))]=float(r["accuracy_ema"])
vs=sys.argv[1].split(";")
seeds=[int(s) for s in (sys.argv[2] if len(sys.argv)>2 else "0").split(",")]
def mean(x): 
    x=[v for v in x if v is not None]; return sum(x)/len(x) if x else float("nan")
print(f"{'cell':38s} naive orac  BARE  OGRS  old  | "+" ".join(f"{v[:9]:>9s}" for v in vs))
tot=defaultdict(list)
for c in rows:
    R=[mean([ref.get((c,m,s)) for s in seeds]) for m in ("naive","oracle","BARE","OGRS","Plausible")]
    vals=[mean(rows[c].get(v,[])) for v in vs]
    if any(v!=v for v in vals) and len(sys.argv)<=3: continue
    for v,x in zip(vs,vals): tot[v].append(x)
    print(f"{c:38s} "+" ".join(f"{x:.3f}" for x in R)+" | "+" ".join(f"{x:9.3f}" for x in vals)+"   "+str([est.get((c,v),("",)*5)[1] for v in vs])+" "+str(est.get((c,vs[-1]),("","","","",""))[2]))
print("mean", {v:round(mean(x),4) for v,x in tot.items()})
