/**
 * Reads the items of an operation that returns them in parts. Each part is requested while the one before it is
 * processed: when the caller wants a second item of that, so that reading only the first item takes one request.
 */
export async function* readAhead<Response, Item, Token>(
  request: (token: Token | undefined) => Promise<Response>,
  itemsOf: (response: Response) => readonly Item[],
  /** Requests the part after a response; undefined if it is the last one. */
  nextToken: (response: Response) => Token | undefined,
): AsyncGenerator<Item> {
  let current: Promise<Response> | undefined = request(undefined);
  while (current !== undefined) {
    const response = await current;
    const token = nextToken(response);
    let next: Promise<Response> | undefined;
    const requestNext = () => {
      if (token === undefined || next !== undefined) return;
      next = request(token);
      // Its error is thrown when it is awaited, and is of no interest if the caller stops before.
      next.catch(() => {});
    };
    for (const item of itemsOf(response)) {
      yield item;
      requestNext();
    }
    requestNext();
    current = next;
  }
}
