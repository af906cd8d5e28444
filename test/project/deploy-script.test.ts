/** docs/cloudformation/deploy.sh, with an AWS CLI that only records its calls. */

import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { aDirectory } from '../support/process/command-line.ts';

const script = join(import.meta.dirname, '../../docs/cloudformation/deploy.sh');

/** The calls of the AWS CLI, for a stack with this status: the first words of each. */
async function deploy(stack: string, status: string) {
  const folder = await aDirectory();
  const dist = join(folder, 'dist');
  await mkdir(dist);
  await writeFile(join(dist, 'stack.txt'), 'Reports\n');
  const describe = status === '' ? 'echo "does not exist" >&2; exit 255' : `echo ${status}`;
  const aws = `#!/usr/bin/env bash\necho "$*" >> ${folder}/calls\n[[ $2 != describe-stacks ]] || { ${describe}; }\n`;
  await writeFile(join(folder, 'aws'), aws, { mode: 0o755 });
  const env = { PATH: `${folder}${delimiter}${process.env['PATH'] ?? ''}` };
  const ended = await promisify(execFile)('bash', [script, stack, 'my-artifacts', dist], { env }).catch(
    (error: { readonly code: number; readonly stderr: string }) => error,
  );
  const calls = await readFile(join(folder, 'calls'), 'utf8').catch(() => '');
  return { ...ended, calls: [...calls.matchAll(/^\S+ (\S+(?: stack-\S+)?)/gm)].map(([, call]) => call) };
}

it.each(['', 'CREATE_COMPLETE', 'UPDATE_ROLLBACK_COMPLETE'])('deploys a stack with the status %j', async (status) => {
  expect(await deploy('Reports', status)).toMatchObject({ calls: ['describe-stacks', 'sync', 'deploy'], stderr: '' });
});

it('first deletes a stack whose creation has failed', async () => {
  const { calls, stdout } = { stdout: '', ...(await deploy('Reports', 'ROLLBACK_COMPLETE')) };
  expect(calls).toEqual(['describe-stacks', 'delete-stack', 'wait stack-delete-complete', 'sync', 'deploy']);
  expect(stdout).toBe('The creation of the stack Reports has failed before. Deleting what is left of it.\n');
});

it('deploys no stack under another name than that of the template', async () => {
  expect(await deploy('Other', 'CREATE_COMPLETE')).toMatchObject({
    code: 2,
    calls: [],
    stderr:
      'The template was synthesized for the stack Reports. Set stackName to Other in the settings, and synthesize again.\n',
  });
});
