/**
 * A cursor as it is stored: printable ASCII. What is not, what begins with a quote and what has blanks around it
 * becomes a JSON string, so that it comes back as it was.
 */

export const encodeText = (text: string): string =>
  /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !text.startsWith('"') ? text : asciiLiteral(text);

export const decodeText = (cursor: string): string =>
  cursor.startsWith('"') ? (JSON.parse(cursor) as string) : cursor;

/** A JSON string that can be sent in an HTTP header and stored as an object's metadata. */
export const asciiLiteral = (text: string): string => asciiJson(JSON.stringify(text));
export const asciiJson = (json: string): string =>
  json.replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Node.js has it, but TypeScript does not know it yet. */
type JsonWithRawValues = JSON & { rawJSON(text: string): unknown };
const rawJson = (text: string): unknown => (JSON as JsonWithRawValues).rawJSON(text);

/** The value of JSON, in which a text and a number with twenty digits stay as they were received. */
export const parseExactly = (json: string): unknown => (/^[[{]/.test(json) ? parseWithNumbers(json) : rawJson(json));

const parseWithNumbers = (json: string): unknown =>
  JSON.parse(json, (_, value: unknown, ...context: unknown[]) => {
    const [{ source = '' } = {}] = context as { readonly source?: string }[];
    return typeof value === 'number' ? rawJson(source) : value;
  });
