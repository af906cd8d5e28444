/** Reads the responses of an operation that returns its result in parts, each requested while the one before it is processed. */

/** A part of the result. */
interface Part<Response> {
  readonly response: Response;
  /** Requests the next part, once. To be called once it is needed, so that reading only the first item takes one request. */
  readonly requestNext: () => void;
}

/** `nextToken` returns what requests the part after a response; undefined if it is the last one. */
export async function* readAhead<Response, Token>(
  request: (token: Token | undefined) => Promise<Response>,
  nextToken: (response: Response) => Token | undefined,
): AsyncGenerator<Part<Response>> {
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
    yield { response, requestNext };
    requestNext();
    current = next;
  }
}
