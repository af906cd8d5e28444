/** Lambda's door to FinishRun. */

import { finishRunHandler } from '../lib/aws/finish-run-handler.ts';

export const handler = finishRunHandler(process.env);
