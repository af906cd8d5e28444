/** What only AWS demands of the settings of a service, in a settings file and in the props of a construct. Needs no CDK. */

import { type CombinationProblem, exportPageSchema, findConcurrencyProblems } from '../../settings/account-settings.ts';
import { exportDeploymentSchema, itemsOf, type ServiceDeploymentSettings } from '../../settings/deployment-settings.ts';
import { serviceSettingsSchema } from '../../settings/settings.ts';
import { findLimitProblems } from '../function-limits.ts';
import { findNetworkProblems } from './service-network.ts';

/** Why AWS cannot run the exports of a service, although the schemas accept its settings. Accepts any value. */
export function findServiceProblems(
  { service, exports, exportPage }: Readonly<Record<string, unknown>>,
  directory: string,
): CombinationProblem[] {
  const { data: parsed } = serviceSettingsSchema.safeParse(service);
  const { data: parsedPage } = exportPageSchema.safeParse(exportPage);
  const items = itemsOf(exports);
  // What is wrong with a service is wrong with all its exports. Report it once.
  const limits = new Map<string, number>();
  for (const [index, each] of items.entries()) {
    const { data: settings } = exportDeploymentSchema.safeParse(each);
    const problems = parsed === undefined || settings === undefined ? [] : findLimitProblems(parsed, settings);
    for (const message of problems) if (!limits.has(message)) limits.set(message, index);
  }
  return [
    ...[...limits].map(([message, index]) => ({ path: ['exports', index], message })),
    ...(parsed === undefined ? [] : within('service', findNetworkProblems(parsed, directory))),
    ...(parsedPage === undefined ? [] : within('exportPage', findConcurrencyProblems(parsedPage, items.length))),
  ];
}

/** By their exports: the services of settings files, whose problems have been reported with their lines. */
const checkedServices = new WeakMap<object, ServiceDeploymentSettings>();

/** A construct with the exports, the service and the function of `settings` does not look for their problems again. */
export function markChecked(settings: ServiceDeploymentSettings): void {
  checkedServices.set(settings.exports, settings);
}

/** Whether a settings file had the settings. */
export function isChecked({ service, exports, exportPage }: Readonly<Record<string, unknown>>): boolean {
  const checked = checkedServices.get(exports as object);
  return checked !== undefined && checked.service === service && checked.exportPage === exportPage;
}

export const within = (prop: string, problems: readonly CombinationProblem[]): CombinationProblem[] =>
  problems.map(({ path, message }) => ({ path: [prop, ...path], message }));
