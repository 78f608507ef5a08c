"""Other names for the same thing: nationalities, states and their abbreviations, short codes of values.

`also_known_as("american")` returns what a database may hold instead: "usa", "united states", "us".
"""

from __future__ import annotations

_NATIONS = """
american: usa united_states us america united_states_of_america u.s. u.s.a.
british: uk united_kingdom great_britain britain england
english: england uk united_kingdom eng
scottish: scotland
welsh: wales
irish: ireland
french: france fra fr
german: germany ger deu
italian: italy ita
spanish: spain esp
portuguese: portugal por
dutch: netherlands holland ned
belgian: belgium bel
swiss: switzerland sui
austrian: austria aut
swedish: sweden swe
norwegian: norway nor
danish: denmark den
finnish: finland fin
polish: poland pol
czech: czech_republic czechia
russian: russia rus russian_federation
ukrainian: ukraine ukr
greek: greece gre
turkish: turkey tur
romanian: romania
hungarian: hungary hun
bulgarian: bulgaria
serbian: serbia
croatian: croatia
canadian: canada can
mexican: mexico mex
brazilian: brazil bra
argentine: argentina arg
argentinian: argentina
chilean: chile
colombian: colombia
peruvian: peru
cuban: cuba
jamaican: jamaica
japanese: japan jpn
chinese: china chn
korean: korea south_korea kor
indian: india ind
pakistani: pakistan
thai: thailand
vietnamese: vietnam
indonesian: indonesia
malaysian: malaysia
filipino: philippines
australian: australia aus
egyptian: egypt
moroccan: morocco
nigerian: nigeria
kenyan: kenya
ethiopian: ethiopia
ghanaian: ghana
south_african: south_africa
israeli: israel
iranian: iran
iraqi: iraq
european: europe
asian: asia
african: africa
male: m man men
female: f woman women
"""

_STATES = """
alabama al alaska ak arizona az arkansas ar california ca colorado co connecticut ct delaware de florida fl
georgia ga hawaii hi idaho id illinois il indiana in iowa ia kansas ks kentucky ky louisiana la maine me maryland md
massachusetts ma michigan mi minnesota mn mississippi ms missouri mo montana mt nebraska ne nevada nv new_hampshire nh
new_jersey nj new_mexico nm new_york ny north_carolina nc north_dakota nd ohio oh oklahoma ok oregon or pennsylvania pa
rhode_island ri south_carolina sc south_dakota sd tennessee tn texas tx utah ut vermont vt virginia va washington wa
west_virginia wv wisconsin wi wyoming wy
"""

_CODES = """
yes: y true t 1
no: n false f 0
true: yes y 1 t
false: no n 0 f
goalie: gk goalkeeper
united_states: usa us united_states_of_america
usa: united_states us america
us: usa united_states america
united_kingdom: uk britain great_britain
uk: united_kingdom
kilometer: km
man: male m
woman: female f
boy: male m
girl: female f
men: male m
women: female f
monday: mon
tuesday: tue
wednesday: wed
thursday: thu
friday: fri
saturday: sat
sunday: sun
january: jan
february: feb
march: mar
april: apr
june: jun
july: jul
august: aug
september: sep
october: oct
november: nov
december: dec
"""


def _table() -> dict[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {}

    def add(word: str, other: str) -> None:
        word, other = word.replace("_", " "), other.replace("_", " ")
        if other != word and other not in names.get(word, ()):
            names[word] = names.get(word, ()) + (other,)

    for block in (_NATIONS, _CODES):
        for line in block.strip().splitlines():
            left, _, right = line.partition(":")
            for other in right.split():
                add(left, other)
                if block is _NATIONS and len(other) > 3:
                    add(other, left)
    words = _STATES.split()
    for state, letters in zip(words[::2], words[1::2]):
        add(state, letters)
    return names


_KNOWN = _table()


def also_known_as(phrase: str) -> tuple[str, ...]:
    """Return other spellings of a phrase, in lower case."""
    return _KNOWN.get(phrase, ())
