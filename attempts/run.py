import sys, csv, time, warnings, os
open("/proc/self/autogroup","w").write("-12")
sys.path.insert(0, ".")
from multiprocessing import get_context
from pathlib import Path
import torch
FOLDER = None
DEV = """digits,symmetric,0.9
digits,symmetric,0.3
digits,boundary,0.7
digits,instance,0.6
digits,class-local,0.82
digits-few-100,symmetric,0.5
mnist,symmetric,0.9
mnist,symmetric,0.3
mnist,boundary,0.7
mnist,open-set,0.7
mnist-fall,symmetric,0.15
cifar10,symmetric,0.9
cifar10,symmetric,0.5
cifar10,symmetric,0.3
cifar10,boundary,0.7
cifar10,instance,0.6
cifar10-few-25,symmetric,0.5
cifar10-few-100,symmetric,0.5
cifar10-fall,symmetric,0.3
cifar10-fall,symmetric,0.15
made-table,symmetric,0.5
made-table,instance,0.6
made-table-few-100,symmetric,0.5
made-table-fall,symmetric,0.15
gaussians,instance,0.6
gaussians,class-local-next,0.8
gaussians-tail-20,symmetric,0.7""".split("\n")
def work(job):
    variant, cell, seed = job
    torch.set_num_threads(1)
    import importlib
    sys.path.insert(0, "attempts")
    V = importlib.import_module("variants").VARIANTS
    from tamis.lab import board, methods
    from tamis.lab.builders import selecting
    from tamis.lab.methods import Method
    from tamis.lab.scene import PLACES
    if variant in V:
        board.VARIANTS = (*methods.VARIANTS, Method(variant, selecting(lambda s: V[variant](s) if V[variant].__code__.co_argcount else V[variant](), warm_up=0), "plausible"))
    d, n, c = cell.split(",")
    t = time.time()
    try:
        r = board.run_cell(board.Cell(variant, d, n, float(c), PLACES[d].slots, seed), FOLDER)
    except Exception as e:
        import traceback; traceback.print_exc()
        return None
    return (variant, d, n, c, seed, r.accuracy_ema, r.purity, r.clean_ratio_estimated, r.clean_ratio_low, r.clean_ratio_high, r.clean_ratio_true, r.inside, r.separation, time.time()-t)
if __name__ == "__main__":
    variants = sys.argv[1].split(";"); seeds=[int(s) for s in sys.argv[2].split(",")]
    pat = sys.argv[3] if len(sys.argv)>3 else ""
    cells = [c for c in DEV if any(p in c for p in pat.split("|"))]
    if len(sys.argv)>4: cells = open(sys.argv[4]).read().split("\n")
    have=set()
    p=Path("attempts/out.csv")
    if p.exists():
        for row in csv.reader(p.open()): have.add((row[0], ",".join(row[1:4]), int(row[4])))
    jobs = [(v,c,s) for s in seeds for c in cells for v in variants if (v,c,s) not in have]
    with get_context("spawn").Pool(int(os.environ.get("J","2"))) as pool, p.open("a") as f:
        w=csv.writer(f)
        for r in pool.imap_unordered(work, jobs):
            if r: w.writerow(r[:5]+tuple(round(x,4) for x in r[5:])); f.flush()
