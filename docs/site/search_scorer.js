// Which pages the search lists first: those that say how to do something, and last those for people who change Clew.
// Sphinx puts this file into its search script; the other numbers are Sphinx's own.
var Scorer = {
  score: ([page, , , , score]) => {
    if (/^(decisions|changelog|benchmarks|architecture|contributing)$/.test(page)) return score - 20;
    return /^(how-to|recipes|tutorial)/.test(page) ? score + 3 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
