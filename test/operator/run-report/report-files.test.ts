import type Fs from 'node:fs';
import { rmSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, utimes, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { writeReportFolder } from '../../../lib/operator/run-report/report-files.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

vi.mock('node:fs', async (importOriginal) => {
  const fs = await importOriginal<typeof Fs>();
  return { ...fs, rmSync: vi.fn<typeof rmSync>(fs.rmSync) };
});

async function aFolder() {
  const directory = await temporaryDirectory();
  onTestFinished(() => directory.remove());
  const path = join(directory.path, 'reports');
  const files = async () => (await readdir(path, { recursive: true })).sort();
  return { path, files };
}
const { signal } = new AbortController();

describe('a folder of run reports', () => {
  it('appears at the end, replaces pages of the same names, and keeps other files', async () => {
    const { path, files } = await aFolder();
    await mkdir(path);
    await writeFile(join(path, 'index.html'), 'old');
    await writeFile(join(path, 'notes.txt'), 'mine');
    const result = await writeReportFolder(path, signal, async (folder) => {
      await folder.add('nightly/run.html', 'a run');
      await folder.add('index.html', 'new');
      expect(await readFile(join(path, 'index.html'), 'utf8')).toBe('old');
      return 'written';
    });
    expect(result).toBe('written');
    expect(await files()).toEqual(['index.html', 'nightly', 'nightly/run.html', 'notes.txt']);
    expect(await readFile(join(path, 'index.html'), 'utf8')).toBe('new');
  });

  it('stays as it was after an error', async () => {
    const { path, files } = await aFolder();
    const writing = writeReportFolder(path, signal, async (folder) => {
      await folder.add('index.html', 'new');
      throw new Error('the page log is gone');
    });
    await expect(writing).rejects.toThrow('the page log is gone');
    expect(await files()).toEqual([]);
  });

  it('reports its error, or its result, also if its temporary folder cannot be removed', async () => {
    const { path } = await aFolder();
    const busy = () => {
      throw new Error('EBUSY');
    };
    vi.mocked(rmSync).mockImplementationOnce(busy);
    const writing = writeReportFolder(path, signal, async () => {
      throw new Error('the page log is gone');
    });
    await expect(writing).rejects.toThrow('the page log is gone');
    vi.mocked(rmSync).mockImplementationOnce(busy);
    expect(await writeReportFolder(path, signal, async () => 'written')).toBe('written');
  });

  it('stays as it was after an interruption, at once', async () => {
    const { path, files } = await aFolder();
    const interruption = new AbortController();
    const writing = writeReportFolder(path, interruption.signal, async (folder) => {
      await folder.add('nightly/run.html', 'a run');
      const before = await files();
      interruption.abort();
      expect([before.length, await files()]).toEqual([2, []]);
      await folder.add('index.html', 'new');
    });
    await expect(writing).rejects.toThrow('aborted');
    expect(await files()).toEqual([]);
  });

  it('does not keep what a killed process left a day ago', async () => {
    const { path, files } = await aFolder();
    await mkdir(path);
    const leave = async (ageMs: number, name?: string) => {
      const left = name === undefined ? await mkdtemp(join(path, '.incomplete-')) : join(path, name);
      await mkdir(join(left, 'nightly'), { recursive: true });
      await writeFile(join(left, 'nightly', 'run.html'), 'a run');
      const time = (Date.now() - ageMs) / 1_000;
      await utimes(left, time, time);
      return basename(left);
    };
    const hourMs = 3_600_000;
    await leave(25 * hourMs);
    // Of a process that may be still running, and of the operator.
    const kept = [await leave(23 * hourMs), await leave(25 * hourMs, '.incomplete-translations')];
    await writeFile(join(path, '.incomplete-abcdef'), 'a file');
    await utimes(join(path, '.incomplete-abcdef'), 0, 0);
    await writeReportFolder(path, signal, (folder) => folder.add('index.html', 'new'));
    const expected = kept.flatMap((name) => [name, `${name}/nightly`, `${name}/nightly/run.html`]);
    expect(await files()).toEqual(['.incomplete-abcdef', ...expected, 'index.html'].sort());
  });

  it('is not removed by another process while pages are added to it, however long that takes', async () => {
    const { path, files } = await aFolder();
    const write = (html: string) => writeReportFolder(path, signal, (folder) => folder.add('index.html', html));
    await writeReportFolder(path, signal, async (folder) => {
      await folder.add('nightly/a.html', 'a run');
      const [staging = ''] = await files();
      await utimes(join(path, staging), 0, 0);
      await folder.add('nightly/b.html', 'a run');
      await write('of another process');
      expect(await files()).toContain(`${staging}/1.html`);
    });
    expect(await files()).toEqual(['index.html', 'nightly', 'nightly/a.html', 'nightly/b.html']);
  });

  it('must not be a file, and its parent must exist', async () => {
    const { path } = await aFolder();
    const write = (to: string) => writeReportFolder(to, signal, (folder) => folder.add('index.html', ''));
    await expect(write(join(path, 'missing'))).rejects.toThrow(
      `--to: cannot write the reports: the directory ${path} does not exist. Create it, or choose another directory`,
    );
    await writeFile(path, '');
    await expect(write(path)).rejects.toThrow(`${path} is not a directory. Choose another one`);
  });
});
