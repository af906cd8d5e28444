/** Descriptions of report jobs that cannot be true, and what is wrong with them. */

import { expect, it } from 'vitest';
import { describedWith } from '../../support/service/exchanges.ts';

const poll = { path: '/jobs/{job}' };
const done = { at: '/status', is: 'done' };
const waiting = { at: '/status', is: 'running' };
const walked = { request: { path: '/jobs/{job}/pages' } };
const job = { create: { path: '/jobs' }, id: '/id', poll, when: { waiting, done } };
const inFiles = { next: { from: 'none' }, job: { ...job, result: { at: '/url' } } };

it.each<readonly [object, string]>([
  [walked, 'has {job}, which needs job'],
  [{ ...walked, job: { ...job, create: { path: '/jobs/{job}' } } }, 'has {job}, which is known only after it'],
  [{ ...walked, job: { ...job, poll: { path: '/jobs' } } }, 'must have {job}'],
  [{ ...walked, job: { ...job, when: undefined } }, 'must be there with poll, and not without it'],
  [{ ...walked, job: { ...job, when: { waiting } } }, 'is required: it says when there is a result'],
  [{ ...walked, job: { ...job, poll: { ...poll, every: 'PT0.5S' } } }, 'must be from PT1S to PT1H'],
  [{ ...walked, job: { ...job, poll: { ...poll, within: 'P1Y' } } }, 'must be an ISO 8601 duration'],
  [{ ...walked, job: { ...job, when: { waiting, done: { reports: 0 } } } }, 'can ask for at, header and status only'],
  [{ ...walked, job: { ...job, when: { empty: { at: '/url', is: null }, done } } }, 'needs waiting beside it'],
  [{ job }, 'must have {job}, or job must have result'],
  [{ ...inFiles, next: { from: 'link' } }, 'must be {"from": "none"}: each file of the result is a page'],
  [{ ...inFiles, job: { ...inFiles.job, poll: undefined, when: undefined } }, 'needs poll'],
  [{ ...inFiles, job: { ...inFiles.job, result: { at: '/url', hosts: ['https://a.example'] } } }, 'must be a host'],
  [
    {
      ...inFiles,
      job: { ...inFiles.job, result: { at: '/ids/*', request: { path: '/f/{item}' }, hosts: ['a.example'] } },
    },
    'has no meaning with {item}',
  ],
  [{ ...walked, job: { ...job, id: {} } }, 'must have either at or header'],
])('%j', (parts, problem) => {
  const { problems } = describedWith(parts);
  expect(problems.join('\n')).toContain(problem);
});

it.each([
  ['in pages', { ...walked, job }],
  ['in files', inFiles],
  ['without polls', { ...walked, job: { create: job.create, id: '/id' } }],
])('a job is valid %s', (_, parts) => {
  expect(describedWith(parts).problems).toEqual([]);
});
