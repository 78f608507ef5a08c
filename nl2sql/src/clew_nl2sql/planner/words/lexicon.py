"""Knowledge of English: stop words, synonyms, adjectives that imply a column, abbreviations.

Everything here is general. Add a word only if it would help with an unknown database.
"""

from __future__ import annotations


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, as a set."""
    return frozenset(text.split())


STOP = word_set("""
    a an the of in on at to for from by with and or as is are was were be been being do does did has have had
    that which who whom whose what where when how there their them they it its his her he she this these those
    all each every any some show list find give return tell me us display please get fetch report also i we you our
    my can could will would shall should may than then so such if not no nor only just but about into
    within per among between whether both either many much more most less least one ones different distinct
    unique please provide compute calculate describe select identify retrieve print along together
    respectively corresponding
""")

# Words that carry no content if nothing links them; they are left out of `unmapped`.
FILLER = STOP | word_set("""
    number count total amount average mean maximum minimum max min sum largest smallest highest lowest
    greatest fewest order ordered sort sorted ascending descending alphabetical alphabetically
    lexicographical lexicographically increasing decreasing top first last above below over under
    greater higher larger lower smaller fewer bigger equal exactly least most common popular frequent
    frequently often full name names named called value values record records information info detail details
    data database table belong belongs contain contains containing exist exists available currently
    ever never always without except group grouped them itself themselves have having use used using
    associated related correspond corresponds make made
""")

# Units of a measure: a number before one of them is not a number of rows.
UNITS = word_set("""
    kg g gram grams kilogram kilograms ton tons tonne tonnes pound pounds lb lbs km m cm mm meter meters metre metres
    kilometer kilometers kilometre kilometres mile miles foot feet inch inches dollar dollars euro euros usd eur gbp
    cent cents degree degrees watt watts percent mg ml liter liters litre litres sqm square minute minutes hour hours
""")

_SYNONYM_GROUPS = """
name title
person people individual human
employee worker staff personnel
company firm business corporation enterprise organization organisation
customer client buyer shopper consumer
student pupil
teacher instructor professor faculty lecturer tutor
film movie picture
car vehicle automobile auto
gender sex
price cost fee charge rate
salary wage pay income earning earn
job occupation profession position title role
city town municipality
country nation nationality
country citizenship nationality
location place site venue
location address
phone telephone mobile cell
email mail
date day time
year date
description detail
type kind category class sort genre
kind style
id identifier number code key identification
amount quantity number
size area
height tall
length long
duration length time
weight heavy mass
population people inhabitant resident
enrollment enrolled enroll
grade score mark point
rating score star rank
rank ranking position
product item good merchandise
order purchase
buy purchase
shop store
author writer
book publication
doctor physician
nation state
begin start from
end finish to
open opening
found founded established establish creation
college university school
course class subject
department dept division unit
manager head supervisor boss
capacity seat
revenue sale income turnover
budget fund money
band group
singer artist musician vocalist
song track music
team club
match game
player athlete
stadium arena
contestant participant competitor
participate join attend
airport airfield
flight airline
aircraft plane airplane
train railway
ship boat vessel
house building
apartment flat
room chamber
hotel inn
guest visitor
visit tour
trip travel journey
picture photo image
language tongue
birthday birth born dob
death dead die casualty
kill death
injured injury
event incident
document file paper
language languages
user account
friend friendship
street road
zip postcode zipcode postal
region area district
county region
district area
distance far mile
speed fast velocity
temperature hot cold
party affiliation
vote ballot
candidate contender
law rule
medicine drug medication
disease illness
treatment therapy
test exam examination
result outcome
award prize
win winner victory won
loss lose lost defeat
result status
director directed direct
produce producer production
manufacturer maker producer
make manufacture produce
own owner ownership
comment remark note
text content
spouse wife husband
father dad
mother mom
kid child
hometown home
program programme show
channel station
level grade
major field
advisor adviser
surname last
forename first
lname last
fname first
stock inventory
supplier vendor provider
agency agent
shipment delivery shipping
quantity count
payment pay
bill invoice
transaction transfer
balance savings
bank branch
crime offense offence
policy plan
claim request
complaint issue problem
problem fault issue
status state condition
hardware device
software application app
browser web
server host
member membership
card credit
tax vat
profit gain earnings
cash money
color colour
usd dollar
euro eur
percent percentage
sex gender male female
nationality citizen
"""

SYNONYMS: dict[str, frozenset[str]] = {}
for _line in _SYNONYM_GROUPS.strip().splitlines():
    _words = _line.split()
    for _word in _words:
        SYNONYMS[_word] = SYNONYMS.get(_word, frozenset()) | frozenset(_words) - {_word}

ABBREVIATIONS: dict[str, tuple[str, ...]] = {
    "num": ("number",), "no": ("number",), "nbr": ("number",), "nr": ("number",), "qty": ("quantity",),
    "amt": ("amount",), "dept": ("department",), "emp": ("employee",), "addr": ("address",),
    "desc": ("description",), "fname": ("first", "name"), "lname": ("last", "name"),
    "mname": ("middle", "name"), "dob": ("birth", "date"), "ssn": ("social", "security", "number"),
    "tel": ("telephone",), "ph": ("phone",), "img": ("image",), "cat": ("category",), "loc": ("location",),
    "mgr": ("manager",), "yr": ("year",), "mo": ("month",), "bal": ("balance",), "acc": ("account",),
    "acct": ("account",), "cust": ("customer",), "prod": ("product",), "inst": ("institution",),
    "org": ("organization",), "univ": ("university",), "stu": ("student",), "prof": ("professor",),
    "pos": ("position",), "gpa": ("grade", "point", "average"), "lat": ("latitude",),
    "long": ("longitude",), "lng": ("longitude",), "max": ("maximum",), "min": ("minimum",),
    "avg": ("average",), "temp": ("temperature",), "pct": ("percent",), "perc": ("percent",),
    "pop": ("population",), "hq": ("headquarter",), "grp": ("group",), "std": ("standard",),
    "info": ("information",), "pw": ("password",), "pwd": ("password",), "uid": ("user", "id"),
    "mfg": ("manufacturer",), "ref": ("reference",), "trans": ("transaction",), "msg": ("message",),
    "pic": ("picture",), "veh": ("vehicle",), "bldg": ("building",), "cnt": ("count",),
    "seq": ("sequence",), "sal": ("salary",), "advis": ("advisor",), "bdate": ("birth", "date"),
    "uname": ("name",), "dname": ("department", "name"), "pname": ("name",), "cname": ("name",),
    "sname": ("name",), "bname": ("branch", "name"), "dnumber": ("department", "number"),
    "stuid": ("student", "id"), "firstname": ("first", "name"), "lastname": ("last", "name"),
    "fullname": ("full", "name"), "birthdate": ("birth", "date"), "birthday": ("birth", "date"),
    "hometown": ("home", "town"), "zipcode": ("zip", "code"), "username": ("user", "name"),
    "nickname": ("nickname",), "checkin": ("check", "in"), "checkout": ("check", "out"),
    "bedtype": ("bed", "type"), "sportname": ("sport", "name"), "roomname": ("room", "name"),
    "homepage": ("home", "page"), "nm": ("name",), "dt": ("date",), "dte": ("date",), "cd": ("code",),
    "sts": ("status",), "stat": ("status",), "prc": ("price",), "wt": ("weight",), "wgt": ("weight",),
    "ht": ("height",), "hgt": ("height",), "ctry": ("country",), "cntry": ("country",), "lmt": ("limit",),
    "tot": ("total",), "empl": ("employee",), "typ": ("type",), "descr": ("description",), "cmt": ("comment",),
    "usr": ("user",), "pmt": ("payment",), "vend": ("vendor",), "supp": ("supplier",), "inv": ("invoice",),
    "rgn": ("region",), "lvl": ("level",), "curr": ("currency",), "ccy": ("currency",), "disc": ("discount",),
    "prio": ("priority",), "whse": ("warehouse",), "mfr": ("manufacturer",),
    "fnm": ("first", "name"), "lnm": ("last", "name"), "reg": ("registration",), "tm": ("time",),
    "mth": ("month",), "hrs": ("hour",), "mins": ("minute",), "secs": ("second",), "dist": ("distance",),
    "dur": ("duration",),
    "lang": ("language",), "cert": ("certificate",), "insp": ("inspection",), "purch": ("purchase",),
    "tkt": ("ticket",), "ts": ("timestamp",), "flg": ("flag",), "ctr": ("center",), "ord": ("order",),
    "pymt": ("payment",), "shp": ("shipment",), "pkg": ("package",), "catg": ("category",),
    "svc": ("service",), "proj": ("project",), "mbr": ("member",), "bkg": ("booking",), "rsv": ("reservation",),
    "resv": ("reservation",), "crs": ("course",), "acad": ("academic",), "occ": ("occupancy",), "rm": ("room",),
    "lic": ("license",), "drv": ("driver",), "appt": ("appointment",), "dest": ("destination",), "orig": ("origin",),
}  # fmt: skip

# Words that ask for a key.
IDENTIFIERS = word_set("id ids identifier identifiers code codes key keys number numbers no")

# Words that occur in identifiers without separators.
IDENTIFIER_WORDS = word_set("""
    name id code date time type number first last full middle birth home town city country state zip street address
    phone email mail year month day start end begin price cost fee amount total count quantity size length
    height weight age sex gender title rank level class grade score point status description detail comment note
    room bed base max min average customer product order item student teacher course school department
    employee staff manager company account branch bank user member club team player game match song artist album track
    movie film actor director author book paper page web site key value group rate rating star color make model
    engine car train ship flight airport airline pilot station route destination source area region district county
    continent population language film capacity open close check in out hour minute floor campus faculty degree
    instructor building advisor major minor hire post office loan credit debit card balance payment policy
    claim event venue host guest party vote voter candidate representative election friend review reviewer
    device software version release file format ground home away winner loser loss win
""")

# An adjective, and the words of the columns that it measures. A minus means that more of the adjective is a
# smaller value: the youngest has the smallest age, the oldest the earliest birth.
_DEGREES = """
old older oldest elder eldest: age -birth -birthday -dob -born -founded -built -established -opened -creation -year
young younger youngest: -age birth birthday dob born founded built
tall taller tallest: height tall elevation floors stories
high higher highest: height elevation altitude rate price score amount
low lower lowest: -price -rate -score -amount
short shorter shortest: -height -length -duration -distance -time -tall
long longer longest: length duration distance time long days year
heavy heavier heaviest: weight mass
light lighter lightest: -weight
large larger largest big bigger biggest: size area population capacity enrollment enrolment amount number length square
small smaller smallest: -size -area -population -capacity -enrollment -amount -number -square
expensive costly pricey: price cost fee rate amount msrp
cheap cheaper cheapest: -price -cost -fee -rate
fast faster fastest quick quickest: speed velocity -time -duration horsepower acceleration
slow slower slowest: -speed -velocity time
late later latest recent recently newest newer new: date year time day founded opened start
early earlier earliest: -date -year -time -day -start
populous populated crowded: population
rich richer richest wealthy wealthiest: money income worth revenue net value balance
poor poorest: -income -money
far farther farthest furthest: distance
near nearest close closest: -distance
deep deeper deepest: depth
wide widest wider: width
strong strongest: strength power
powerful: power horsepower
hot hotter hottest warm warmest: temperature
cold colder coldest: -temperature
good better best: score rating rank result points grade gpa
bad worse worst: -score -rating -points
popular: popularity rating number votes
profitable: profit profits
senior: age years
"""

DEGREES: dict[str, tuple[tuple[str, bool], ...]] = {}
for _line in _DEGREES.strip().splitlines():
    _left, _, _right = _line.partition(":")
    _columns = tuple((_word.lstrip("-"), _word.startswith("-")) for _word in _right.split())
    for _word in _left.split():
        DEGREES[_word] = _columns

MONTHS = {
    name: number
    for number, names in enumerate(
        ("january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
         "september sep sept", "october oct", "november nov", "december dec"), start=1)
    for name in names.split()
}  # fmt: skip
