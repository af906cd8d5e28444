/** `report-exporter doctor`: checks whether exports could run now, and says how to fix what would prevent them. */

import { systemRuntime } from '../../core/clock.ts';
import { describeLocalExport } from '../../local/directory.ts';
import { type CommandContext, exitStatuses, runOn, runOnDeployment, type TargetOptions } from '../context.ts';
import type { Finding } from '../../target/findings.ts';
import { runHealthChecks, runSettingsChecks } from '../health-checks.ts';
import { readExports } from '../local-settings.ts';
import { plural } from '../output/format.ts';
import { type TextStyle, textStyleFor } from '../output/terminal.ts';

export interface DoctorOptions extends TargetOptions {
  /** A settings file whose exports need not have run. */
  readonly settings?: string;
  /** The version of this program. */
  readonly version: string;
}

/** Exits with `failed` if there is a problem; warnings do not count. */
export async function doctorCommand(
  exportName: string | undefined,
  options: DoctorOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { stderr, program, env } = context;
  const { version, settings: file } = options;
  const notify = (text: string) => stderr.write(`${text}\n`);
  const checks = { version, program, notify, runtime: systemRuntime };
  if (file === undefined) {
    return await runOnDeployment(options, usageErrors, context, async (deployment) => {
      return await report(runHealthChecks(deployment, exportName, checks), deployment.name, options, context);
    });
  }
  const problems = [...usageErrors];
  const hasTarget = options.out !== undefined || options.stack !== undefined;
  if (hasTarget) problems.push('--settings: checks what has not run yet; leave out --out and --stack');
  const open = async () => {
    const names = exportName === undefined ? [] : [exportName];
    const exports = (await readExports({ settings: file, all: names.length === 0 }, names, [])).map((each) =>
      describeLocalExport(each, { env, runtime: systemRuntime }),
    );
    return { exports, [Symbol.asyncDispose]: async () => {} };
  };
  return await runOn(open, options, problems, context, async ({ exports }) => {
    return await report(runSettingsChecks(exports, file, checks), `settings file ${file}`, options, context);
  });
}

/** Prints the results as they arrive, and returns the exit status. */
async function report(
  checks: AsyncIterable<Finding>,
  target: string,
  { json = false }: Pick<TargetOptions, 'json'>,
  { stdout, env }: CommandContext,
): Promise<number> {
  const style = textStyleFor(stdout, env);
  const results: Finding[] = [];
  for await (const result of checks) {
    results.push(result);
    if (!json) stdout.write(formatResult(result, style));
  }
  const count = (state: Finding['state']) => results.filter((result) => result.state === state).length;
  const problems = count('problem');
  const warnings = count('warning');
  if (json) {
    const status = problems > 0 ? 'problem' : warnings > 0 ? 'warning' : 'ok';
    stdout.write(`${JSON.stringify({ status, target, findings: results })}\n`);
  } else {
    stdout.write(`${plural(problems, 'problem')}, ${plural(warnings, 'warning')} (${target})\n`);
  }
  return problems > 0 ? exitStatuses.failed : exitStatuses.ok;
}

const marks = { ok: ['green', '✓'], warning: ['yellow', '!'], problem: ['red', '✗'] } as const;

function formatResult({ check, export: name, state, message, remedy }: Finding, style: TextStyle): string {
  const [color, mark] = marks[state];
  const subject = `${name === null ? '' : `${name} `}${check}`;
  const line = `${style(color, mark)} ${subject.padEnd(20)} ${message}\n`;
  return remedy === null ? line : `${line}  ${''.padEnd(20)} ${style('bold', '→')} ${remedy}\n`;
}
