/** The value of JSON text; undefined if it is none. The error, which would quote the text, is dropped. */
export function parseJson(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? '');
  } catch {
    return undefined;
  }
}
