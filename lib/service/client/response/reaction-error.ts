/** The error for a response that is no page. */

import type { ExportError } from '../../../core/errors.ts';
import type { ConditionPart } from '../../api/condition.ts';
import type { PageFacts } from '../../api/next/kind.ts';
import { contractError, type ErrorContext, failure } from '../errors.ts';
import type { Reaction } from './reaction.ts';
import { rejectedTokenError, type Requested, statusError, throttledError } from './response-status.ts';

/** undefined: the response is a page, is an empty one, ends the pages, or says that there are none. */
export function errorOfReaction(
  context: ErrorContext,
  reaction: Reaction,
  facts: PageFacts,
  { requested, excerpt }: { readonly requested: () => Requested; readonly excerpt: string },
): ExportError | undefined {
  const response = { statusCode: facts.status, headers: { location: facts.header('location') } };
  switch (reaction.kind) {
    case 'page':
    case 'empty':
    case 'end':
    case 'gone':
      return undefined;
    case 'throttled':
      return throttledError(context, response, reaction.seconds, excerpt);
    case 'credentials':
      return reaction.part === undefined
        ? statusError(context, response, requested(), excerpt)
        : rejectedTokenError(context, requested(), describe(reaction.part, facts));
    case 'cursorExpired': {
      const reason = `its response for ${context.label} has ${describe(reaction.part, facts)}`;
      return failure(context, 'CursorRejectedError', `${context.server.name} no longer accepts the cursor: ${reason}`);
    }
    case 'error': {
      // With `not`, the value is often only a code.
      const response = reaction.part.not === undefined || excerpt === '' ? '' : `. Response: ${excerpt}`;
      return contractError(context, `it reports an error: ${describe(reaction.part, facts)}${response}`);
    }
    case 'status':
      return statusError(context, response, requested(), excerpt);
  }
}

/** The part of a response that the condition is about, such as `"expired" at /error`. */
function describe({ at, header, parameter, status }: ConditionPart, facts: PageFacts): string {
  if (at !== undefined) {
    const { text, type } = facts.value(at);
    const shown = text === undefined ? (type ?? 'nothing') : facts.quote(text, 150);
    return `${shown} at ${at === '' ? 'its root' : at}`;
  }
  if (header !== undefined) return `${facts.quote(facts.header(header) ?? 'nothing', 150)} in the header ${header}`;
  return parameter === undefined ? `status ${String(status)}` : `the parameter ${parameter} of its link`;
}
