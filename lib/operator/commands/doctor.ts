/** `report-exporter doctor`: checks whether exports could run now, and says how to fix what would prevent them. */

import { systemRuntime } from '../../core/clock.ts';
import { type CommandContext, exitStatuses, runOnDeployment, type TargetOptions } from '../context.ts';
import { type CheckResult, runHealthChecks } from '../health-checks.ts';
import { plural } from '../output/format.ts';
import { type TextStyle, textStyleFor } from '../output/terminal.ts';

export interface DoctorOptions extends TargetOptions {
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
  const { stdout, stderr, env, program } = context;
  return await runOnDeployment(options, usageErrors, context, async (deployment) => {
    const style = textStyleFor(stdout, env);
    const results: CheckResult[] = [];
    const say = (text: string) => stderr.write(`${text}\n`);
    const checks = { version: options.version, program, say, runtime: systemRuntime };
    for await (const result of runHealthChecks(deployment, exportName, checks)) {
      results.push(result);
      if (options.json !== true) stdout.write(formatResult(result, style));
    }
    const count = (state: CheckResult['state']) => results.filter((result) => result.state === state).length;
    const problems = count('problem');
    const warnings = count('warning');
    if (options.json === true) {
      const status = problems > 0 ? 'problem' : warnings > 0 ? 'warning' : 'ok';
      stdout.write(`${JSON.stringify({ status, target: deployment.name, findings: results })}\n`);
    } else {
      stdout.write(`${plural(problems, 'problem')}, ${plural(warnings, 'warning')} (${deployment.name})\n`);
    }
    return problems > 0 ? exitStatuses.failed : exitStatuses.ok;
  });
}

const marks = { ok: ['green', '✓'], warning: ['yellow', '!'], problem: ['red', '✗'] } as const;

function formatResult({ check, export: name, state, message, remedy }: CheckResult, style: TextStyle): string {
  const [color, mark] = marks[state];
  const subject = `${name === null ? '' : `${name} `}${check}`;
  const line = `${style(color, mark)} ${subject.padEnd(20)} ${message}\n`;
  return remedy === null ? line : `${line}  ${''.padEnd(20)} ${style('bold', '→')} ${remedy}\n`;
}
