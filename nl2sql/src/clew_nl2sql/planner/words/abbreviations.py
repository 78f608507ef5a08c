"""Words of a schema that may stand for longer words: `veh` for vehicle, `rnd` for round, `pt` for part time.

An abbreviation has the first letter of its word, and the next consonants without a gap; vowels may be left out. That
covers beginnings ("vac" of vacant) and skeletons ("rfnd" of refund). `rnd` is therefore not refund. Four consonants
may have gaps: `dsct` is discount.
"""

from __future__ import annotations

import re

from clew_nl2sql.planner.words.lexicon import FILLER, IDENTIFIER_WORDS, MONTHS, SYNONYMS, UNITS, word_set

_LONGEST = 5
_WITH_GAPS = 4
_VOWELS = re.compile(r"[aeiou]")
_TWICE = re.compile(r"(.)\1")

# Short English words that schemas use. They stand for themselves.
_ENGLISH = word_set("""
    able act add age ago aid aim air all and any arc area arm art ask asset away baby back bag bar base bay bed bell
    belt best bet bid big bike bin bird birth bit black blank block blog blood blue board boat body bolt bond bone book
    boot box boy brand bread break brew brick brief bug bulk burn bus buy cab cabin cable cake call camp can cap car
    card care cargo case cash cast cell chain chair chart chef child chip city claim class clean clerk clip clock close
    cloud club coach coal coast coat code coin cold color copy core corn cost count court cover cow craft crane cream
    crew crime crop cross crowd cup cure curve cut cycle dance data date day dead deal death debt deck deep depot depth
    desk diet dish disk dock dog door dose draft draw dress drink drive drop drug dry due duty each ear early earn
    east edge edit egg end enter entry equal error even event ever exam exit extra eye face fact fail fair fall farm
    fast fat father fault fax fee feed field file fill film final fire firm first fish fit five flag fleet flight floor
    flow fly food foot force form fort four frame free front fruit fuel full fund game gap gas gate gear gift girl
    give glass goal goat gold good grade grain gram grape graph grass green grid ground group guard guest guide gun
    hair half hall hand hard harm hat head heart heat help herb hero high hill hire hit hold hole home hop horse host
    hotel hour house human ice idea image in inch index input iron issue item job join joint judge juice jump junior
    jury key kid kind king kit label lab lady lake land lane large last late law layer lead leaf lease leave left leg
    legal lend lens lent less level life lift light like limit line link lion list live load loan local lock log long
    look loop lord loss lost lot love low lunch mail main major make male man map mark mass match mate meal meat media
    meet menu metal meter mid mile milk mind mine miss mix mode model money month mood moon motor mount mouth move movie
    music name need nest net new news next night nine no node noise none nor north nose note nurse oak off offer office
    oil old on once one only open opera or oral order organ other out oven over own owner pack page paid pain paint pair
    pan panel paper park part party pass past path pay peak pen pet phase phone photo piano piece pile pilot pin pipe
    pitch place plan plane plant plate play plot plug plus point pole poll pool port post pot pound power press price
    print prize pro proof pub pump punch pupil race radio rail rain range rank rate raw read ready real rear red rent
    reply rest rice ride right ring rise risk river road robot rock role roll roof room root rope rose rough round
    route row rule run rural safe sail sale salt same sand scale scene scope score screen sea seal seat seed self sell
    send set shape share sheet shelf shift ship shirt shoe shop shot show sick side sign site six size skill skin skip
    sky sleep slot small smoke snow soap soil solar solo song sort soup south space spare speed spend sport spot
    spring staff stage stake stand star start state stay steel stem step stock stone stop store storm story street
    study style sub sugar suit sum sun swim table tag tail take talk tank tape target task taste tax tea team tech ten
    tent term test text then theme third three ticket tide tie tile time tip tire title to toll ton tone tool top total
    touch tour tower town toy track trade trail train tray treat tree trial trip truck trust tube turn two type unit up
    urban use user van vat vet video view visit voice void vote wage wait walk wall war ward wash waste watch water
    wave way web week well west wheat wheel white whole wide wife wild win wind wine wing wire woman wood wool word
    work world worth wrist yard year yes yield young youth zero zip zone zoo
""")
_KNOWN = _ENGLISH | FILLER | IDENTIFIER_WORDS | UNITS | SYNONYMS.keys() | MONTHS.keys()


def is_short_form(part: str) -> bool:
    """Return whether a part of a name is no English word, and short enough to stand for one."""
    return part.isascii() and part.isalpha() and 2 <= len(part) <= _LONGEST and part not in _KNOWN


def has_vowel(part: str) -> bool:
    """Return whether a part of a name could be spoken."""
    return _VOWELS.search(part) is not None


def may_stand_for(part: str, word: str) -> bool:
    """Return whether a part of at least three letters abbreviates a word: `cmpl`, complaint."""
    enough = len(word) - len(part) > (1 if has_vowel(part) else 0)
    if len(part) < 3 or not enough or part[0] != word[0]:
        return False
    letters = iter(word)
    in_order = all(letter in letters for letter in part)
    short, gaps = _skeleton(part), len(part) >= _WITH_GAPS and not has_vowel(part)
    return in_order and len(short) > 1 and (gaps or _skeleton(word).startswith(short))


def is_compound_of(part: str, word: str) -> bool:
    """Return whether two letters begin the two halves of a long word: `hh`, household."""
    return len(part) == 2 and word[0] == part[0] and part[1] in word[4:-3]


def _skeleton(word: str) -> str:
    """Return the first letter and the later consonants, without double ones: "cmrcl" of commercial."""
    return word[0] + _VOWELS.sub("", _TWICE.sub(r"\1", word)[1:])
