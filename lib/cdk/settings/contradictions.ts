/**
 * What no part of the settings shows by itself: names that collide, and exports that Lambda could not hold or run.
 * Looked for in whatever is there, so that it is named together with every other mistake.
 */

import { z } from 'zod';
import { serviceSettingsSchema } from '../../core/settings/settings.ts';
import { problemOfEnvironment, problemsOfLimits } from '../function-limits.ts';
import { type DeployedExport, deployedExportSchema, functionSettings, type ServiceInput } from './deployed-export.ts';

/** Zod's issues, with their places below `root`. `context` is what a person wrote, whatever it is. */
export function contradictionsIn(context: unknown, root: string): z.core.$ZodIssue[] {
  const { service, exports } = partsSchema.parse(context);
  // CloudFormation's names know neither hyphens nor underscores, and people take one case for the other.
  const names = exports.map((each) => nameSchema.safeParse(each).data?.name.replaceAll(/[-_]/g, '').toLowerCase());
  return exports.flatMap((each, place) => [
    ...collisionsOf(names, place).map((message) => issueAt([root, 'exports', place, 'name'], message)),
    ...misfitsOf(service, each).map((message) => issueAt([root, 'exports', place], message)),
  ]);
}

/** The parts, as far as there are any. */
const partsSchema = z
  .object({ service: z.unknown(), exports: z.array(z.unknown()).catch([]) })
  .catch({ service: undefined, exports: [] });
const nameSchema = z.object({ name: z.string() });

const issueAt = (path: (string | number)[], message: string): z.core.$ZodIssue => ({
  code: 'custom',
  path,
  message,
  input: undefined,
});

function collisionsOf(names: readonly (string | undefined)[], place: number): string[] {
  const mine = names[place];
  const twin = mine === undefined ? place : names.indexOf(mine);
  return twin === place ? [] : [`is too like exports[${twin}].name`];
}

/** Only for what is right by itself; anything else has been named already. */
function misfitsOf(service: unknown, each: unknown): string[] {
  const parsedService = serviceSettingsSchema.safeParse(service);
  const parsedExport = deployedExportSchema.safeParse(each);
  if (!parsedService.success || !parsedExport.success) return [];
  const environment = problemOfEnvironment(functionSettings(service as ServiceInput, each as DeployedExport));
  return [
    ...problemsOfLimits({ service: parsedService.data, settings: parsedExport.data }),
    ...(environment === undefined ? [] : [environment]),
  ];
}
