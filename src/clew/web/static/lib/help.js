// The keys, as the help lists them.
export { lettersOn, setLetters } from './keys.js';

export const HELP = [
  ['Everywhere', [['/', 'query'], ['g r', 'runs'], ['g q', 'questions'], ['g c', 'checks'], ['g v', 'values'], ['⌘K', 'jump to a run, node or value'],
    ['y', 'copy the link'], ['space', 'pause live updates'], ['esc', 'clear the selection'], ['?', 'this list']]],
  ['Runs', [['j k', 'rows'], ['x', 'select'], ['shift+x', 'select a range'], ['enter', 'open']]],
  ['A run', [['← →', 'the state before, after'], ['shift+← →', 'last, next change of the selected value or node'], ['home end', 'first, last state'],
    ['[ ]', 'previous, next item in time'], ['t', 'axis: time or steps'], ['+ − 0', 'zoom the timeline'], ['w', 'why it ran'], ['e', 'error'], ['c', 'calls'],
    ['a', 'answer'], ['f', 'fork at k'], ['r', 'resume'], ['⌘↵', 'send the form']]],
];
