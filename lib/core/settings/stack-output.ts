/**
 * What a deployed stack tells of an export, and how: the one place where the deployment, which writes it into an output,
 * and an operator's commands, which find the export by it, agree.
 */

import * as z from 'zod';

/** The output's name is the export's in Pascal case and this. */
export const exportOutputSuffix = 'Export';

const name = z.string().min(1);

/** JSON in the output. What else the export is made of, its functions' own environment says. */
export const exportOutputSchema = z.object({
  export: name,
  stateMachineArn: name,
  /** The function whose environment holds all that the export is set to. */
  exportPageFunction: name,
  /** Of EventBridge Scheduler, in its default group; without one it is started by hand. */
  schedule: name.optional(),
});
export type ExportOutput = z.infer<typeof exportOutputSchema>;
