/**
 * The stack output that describes one export. The deployment writes it; the operator's commands find the export by it.
 * Everything else they need is in the environment of the export's functions.
 */

import * as z from 'zod';

/** The name of the output is the export's name in Pascal case, followed by this suffix. */
export const exportOutputSuffix = 'Export';

const name = z.string().min(1);

/** The value of the output, as JSON. */
export const exportOutputSchema = z.object({
  export: name,
  stateMachineArn: name,
  /** The function whose environment holds all settings of the export. */
  exportPageFunction: name,
  /** The name of a schedule in EventBridge Scheduler's default group. Absent: the export has no schedule. */
  schedule: name.optional(),
});
export type ExportOutput = z.infer<typeof exportOutputSchema>;
