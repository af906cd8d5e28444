/** Reads text as the tokens of JSON, and says what is wrong with it as a person understands it. */

import { getManyValues, none } from 'stream-chain/core';
import { jsonParser } from 'stream-json/core/parser.js';

/** Strings, keys and numbers arrive in chunks. */
export interface Token {
  readonly name: string;
  /** Absent: the token is nothing but its name. */
  readonly value?: string | boolean | null;
}

/** How many characters of a string the parser holds until more arrive: those of an escape. */
const maxPending = 6;

/** `many`: any number of documents, not one. */
export function createJsonTokenizer(many: boolean) {
  const parser = jsonParser({ packValues: false, jsonStreaming: many });
  /** Whether the text read so far ends in a string or a key. */
  let isInString = false;
  /** The end of the text before, which the parser may still hold. */
  let before = '';

  /** Returns a problem, or the tokens. `undefined`: the text is over. */
  return (text: string | undefined): string | readonly Token[] => {
    try {
      const tokens = parser((text ?? none) as string);
      const values = tokens === none ? [] : (getManyValues(tokens) as readonly Token[]);
      const { name } = values.at(-1) ?? {};
      if (name !== undefined) isInString = name === 'startString' || name === 'startKey' || name === 'stringChunk';
      return values;
    } catch (error) {
      return problemOf(error as Error, { before, text: text ?? '', isInString });
    } finally {
      before = lastCharacters(before, text ?? '');
    }
  };
}

/** At least those that the parser may hold. Most texts are longer, and not copied. */
const lastCharacters = (before: string, text: string): string =>
  text.length >= maxPending ? text : (before + text).slice(-maxPending);

/** The parser's message, as a person understands it. */
function problemOf({ message }: Error, place: Place): string {
  if (/expected a string value/.test(message)) return 'it ends inside a string';
  if (/unexpected characters/.test(message)) return 'text after the end of the document';
  if (/escaped characters/.test(message)) return problemInString(place);
  return message.replace(/^Parser (has|cannot parse input:) /, '');
}

interface Place {
  readonly before: string;
  readonly text: string;
  readonly isInString: boolean;
}

/** The character that a string must not have as it is. */
function problemInString({ before, text, isInString }: Place): string {
  let isInside = isInString;
  for (const [found] of text.matchAll(/\\(?:["\\/bfnrt]|u[\da-f]{4})|["\\\u0000-\u001f]/gi)) {
    if (found === '"') isInside = !isInside;
    else if (isInside && found.length === 1) return `${nameOf(found)} inside a string`;
  }
  const [found = '\\'] = /[\u0000-\u001f]/.exec(before) ?? [];
  return `${nameOf(found)} inside a string`;
}

function nameOf(character: string): string {
  if (/[\n\r]/.test(character)) return 'a line break';
  if (character === '\t') return 'a tab';
  if (character === '\\') return 'a backslash without a valid escape';
  return `the control character U+${character.charCodeAt(0).toString(16).padStart(4, '0').toUpperCase()}`;
}
