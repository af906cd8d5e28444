/** `report-exporter local`: runs on this machine, with the settings of the command line or of a settings file. */

import { openLocalDeployment } from '../../local/directory.ts';
import { assertNoProblems } from '../arguments.ts';
import { type Call, runCommand } from '../context.ts';
import { readLocalRuns } from '../local-settings.ts';
import { readMaxAttempts, readStartRequest } from '../run-options.ts';
import { startExports } from '../start-exports.ts';

/** The names are exports of the settings file. Resolves to the exit status of the runs. */
export async function localCommand(call: Call): Promise<number> {
  const { names, options, problems, env, stderr, runtime, program } = call;
  const maxAttempts = readMaxAttempts(options.maxAttempts, problems);
  const request = readStartRequest(options, runtime.now(), problems);
  const exitStatus = await runCommand({ ...call, problems: [] }, async () => {
    const runs = readLocalRuns(options, names, problems);
    assertNoProblems(problems);
    await using target = openLocalDeployment({ ...runs, env, runtime });
    return await startExports(target, runs.names, { request, follow: true, maxAttempts, command: 'local' }, call);
  });
  if (problems.length > 0 && options.settings === undefined) stderr.write(`For help: ${program} local --help\n`);
  return exitStatus;
}
