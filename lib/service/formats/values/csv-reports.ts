/** The values in columns of a CSV table, whose first row has their names (`../csv.ts`). */

import type { OnReport, TextReader } from '../format-check.ts';

export function csvReports(delimiter = ',', columns: readonly string[], onReport: OnReport): TextReader {
  let row: string[] = [];
  let field = '';
  let isQuoted = false;
  /** Whether the character before was a quote in quoted text: it ends the text, unless another one follows. */
  let afterQuote = false;
  /** Whether the line has a quote. Then it is not blank, even if its only field is empty. */
  let hasQuote = false;
  let places: readonly number[] | undefined;
  let problem: string | undefined;

  const endField = (): void => {
    row.push(field);
    field = '';
  };
  const endRow = (): void => {
    // A blank line may follow the last row.
    if (row.length === 0 && field === '' && !hasQuote) return;
    hasQuote = false;
    endField();
    if (places !== undefined) onReport(places.map((place) => textAt(row, place)));
    else {
      problem = columns.map((name) => repeated(row, name)).find((found) => found !== undefined);
      places = columns.map((name) => row.indexOf(name));
    }
    row = [];
  };
  const readQuoted = (character: string): boolean => {
    if (character === '"' && !afterQuote) afterQuote = true;
    else if (afterQuote && character !== '"') isQuoted = afterQuote = false;
    else {
      afterQuote = false;
      field += character;
    }
    return isQuoted;
  };
  const readCharacter = (character: string): void => {
    if (isQuoted && readQuoted(character)) return;
    if (character === '"') isQuoted = hasQuote = true;
    else if (character === delimiter) endField();
    else if (character === '\n') endRow();
    else if (character !== '\r') field += character;
  };
  return {
    read(text) {
      for (const character of text) readCharacter(character);
      return problem;
    },
    end() {
      endRow();
      return problem ?? {};
    },
  };
}

const textAt = (row: readonly string[], place: number) => {
  const text = row[place];
  return text === undefined ? undefined : ({ type: 'string', text } as const);
};

const repeated = (names: readonly string[], name: string): string | undefined =>
  names.indexOf(name) === names.lastIndexOf(name) ? undefined : `there are two columns ${name}`;
