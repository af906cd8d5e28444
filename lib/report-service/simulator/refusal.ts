/**
 * Every answer that is not a page. The contract shows neither error codes nor error bodies nor error conditions
 * (sections 4.1 and 7), so this whole table is this project's assumption: what a careful service would do.
 */

const refusals = {
  /** The key is missing, repeated or wrong (section 5: every request carries it). */
  unauthorized: 401,
  /** Any path but `/v1/report/export` (section 4.1). */
  not_found: 404,
  /** Any method but POST; a GET variant is named by the contract, but not shown (section 4.1, gaps). */
  method_not_allowed: 405,
  /** The request body is over 64 KiB. */
  body_too_large: 413,
  /** The request's content-type is not application/json (section 4.1). */
  unsupported_media_type: 415,
  /** The body is not UTF-8, or not JSON. */
  invalid_json: 400,
  /** A field that is missing, wrong, out of range, or not shown by the contract (section 2.1). */
  invalid_request: 400,
  /** Not a cursor, not one of ours, or sent with another filter, format, container or size (section 4.1, rule 6). */
  invalid_cursor: 400,
  /** The simulator itself failed: a report that can no longer be read, for one. */
  internal_error: 500,
} as const;

/** Thrown wherever a request is found wanting; answered as `{"error": code, "message": …}` in JSON. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly code: keyof typeof refusals;
  readonly status: number;

  constructor(code: keyof typeof refusals, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.status = refusals[code];
  }
}
