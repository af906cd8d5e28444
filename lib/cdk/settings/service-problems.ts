/** What only AWS demands of the settings of a service, in a settings file and in the props of a construct. Needs no CDK. */

import { findConcurrencyProblems } from '../../settings/account-settings.ts';
import type { ValidService } from '../../settings/deployment-settings.ts';
import { type SettingsProblem, within } from '../../settings/parse-settings.ts';
import { findLimitProblems } from '../function-limits.ts';
import { findNetworkProblems } from './service-network.ts';

/** Why AWS cannot run the exports of a service, although the schemas accept its settings. */
export function findServiceProblems(
  { service, exports, exportPage = {} }: ValidService,
  directory: string,
): SettingsProblem[] {
  // What is wrong with a service is wrong with all its exports. Report it once.
  const limits = new Map<string, number>();
  for (const [index, settings] of exports.entries()) {
    if (!has(service, 'totalTimeout', 'maxPageBytes')) break;
    if (!has(settings, 'slices', 'maxInlineWait', 'maxRetryAfter', 'pagesPerInvocation')) continue;
    for (const message of findLimitProblems(service, settings)) if (!limits.has(message)) limits.set(message, index);
  }
  return [
    ...[...limits].map(([message, index]) => ({ path: ['exports', index], message })),
    ...within(['service'], findNetworkProblems(service, directory)),
    ...within(['exportPage'], findConcurrencyProblems(exportPage, exports.length)),
  ];
}

/** Whether none of the fields is invalid, and so missing. */
const has = <Settings extends object, Name extends keyof Settings>(
  settings: Settings,
  ...names: readonly Name[]
): settings is Settings & Required<Pick<Settings, Name>> => names.every((name) => settings[name] !== undefined);
