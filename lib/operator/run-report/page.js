/*
 * Shows the run in the data of the page. Runs in the browser, after uPlot. What comes from
 * outside is inserted as text only.
 */
(() => {
  /** @typedef {import('./render-page.ts').RunPage} RunPage */
  /** @typedef {RunPage['run']} Run */
  /** @typedef {{ [Key in keyof Run['points']]: number } & { lastPage: number }} Point */

  /** @returns {HTMLElement} */
  const find = (selector) => document.querySelector(selector);

  /** @type {RunPage} */
  const data = JSON.parse(find('#data').textContent);

  /* Elements */

  /** A child that is a string becomes text. */
  function element(name, properties, ...children) {
    const created = Object.assign(document.createElement(name), properties);
    created.append(...children);
    return created;
  }

  const code = (text) => element('code', {}, text);
  const stateLabel = (state) => element('span', { className: `state ${state}` }, state);

  /** Fills a description list. Facts without a value are left out. */
  function showFacts(selector, facts) {
    for (const [term, value] of facts) {
      if (value === null || value === undefined) continue;
      find(selector).append(element('div', {}, element('dt', {}, term), element('dd', {}, value)));
    }
  }

  /** Each column has a title, the content of a cell, and perhaps a class. */
  function fillTable(table, columns, rows) {
    const rowOf = (name, contentOf) =>
      columns.map((column) => element(name, { className: column[2] ?? '' }, contentOf(column)));
    const body = rows.map((row) => element('tr', {}, ...rowOf('td', ([, contentOf]) => contentOf(row))));
    const titles = element('tr', {}, ...rowOf('th', ([title]) => title));
    table.append(element('thead', {}, titles), element('tbody', {}, ...body));
    return table;
  }

  /* Formats */

  const formatNumber = (value) => value.toLocaleString('en', { maximumFractionDigits: Math.abs(value) < 100 ? 1 : 0 });
  const formatReports = (reports) => (reports === null ? 'not counted' : formatNumber(reports));
  const plural = (count, noun) => `${formatNumber(count)} ${noun}${count === 1 ? '' : 's'}`;

  function formatBytes(bytes) {
    const power = Math.min(4, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
    return `${formatNumber(bytes / 1e3 ** power)} ${['bytes', 'kB', 'MB', 'GB', 'TB'][power]}`;
  }

  /** `480 ms`, `3.2 s`, `12 min 3 s`, `2 d 3 h`. */
  function formatDuration(ms) {
    if (ms < 999.5) return `${Math.round(ms)} ms`;
    if (ms < 59_950) return `${formatNumber(ms / 1e3)} s`;
    const seconds = Math.round(ms / 1e3);
    const units = Object.entries({
      d: seconds / 86_400,
      h: (seconds / 3_600) % 24,
      min: (seconds / 60) % 60,
      s: seconds % 60,
    });
    const largest = units.findIndex(([, count]) => count >= 1);
    const shown = units.slice(largest, largest + 2).filter(([, count]) => count >= 1);
    return shown.map(([unit, count]) => `${Math.floor(count)} ${unit}`).join(' ');
  }

  /** `2026-11-20 02:00:01`. */
  const formatTime = (instant) => new Date(instant).toISOString().slice(0, 19).replace('T', ' ');

  /** @param {{ since: string | null, until?: string }} run */
  const formatPeriod = ({ since, until }) =>
    `${since === null ? 'unknown' : formatTime(since)}${until === undefined ? '' : ` to ${formatTime(until)}`}`;

  /**
   * When the run was completed or last active; for a running run, the present.
   * @param {import('../run-view.ts').RunView} run
   */
  function lastActiveMs({ state, startedAt, completedAt, lastPageAt, lastIncident }) {
    if (completedAt !== null) return Date.parse(completedAt);
    if (state === 'running') return Date.parse(data.createdAt);
    return Math.max(...[startedAt, lastPageAt, lastIncident?.at].map((instant) => Date.parse(instant ?? startedAt)));
  }

  const durationMs = (run) => Math.max(0, lastActiveMs(run) - Date.parse(run.startedAt));

  /* All pages */

  function showHeader(title, label, lead) {
    document.title = title;
    find('h1').append(title, ' ', label);
    find('.lead').append(lead);
    find('footer').append(
      `Created from the page log of ${data.deployment} at ${formatTime(data.createdAt)}. Times are in UTC, by the clock ` +
        'of the exporter. This file is self-contained and makes no network requests.',
    );
  }

  const showProblem = (name, message) =>
    find('header').append(element('p', { className: 'problem' }, element('strong', {}, `${name}.`), ` ${message}`));

  /* A run */

  /** @param {RunPage} page */
  function showRun({ run, deploymentOption }) {
    find('main').hidden = false;
    showHeader(run.export, stateLabel(run.state), outcomeOf(run));
    showProblems(run);
    const points = pointsOf(run.points);
    showFacts('.figures', figuresOfRun(run));
    showFacts('.facts', factsOfRun(run, points));
    if (points.length > 0) showPoints(run, points);
    showFacts('#request', factsOfRequest(run));
    showFacts('#files', factsOfFiles(run, deploymentOption));
  }

  /** @param {Run} run */
  function showProblems({ lastIncident, slices, jobs = [] }) {
    for (const { slice, id = 'without an ID', status = '', statusSince, phase } of jobs) {
      const place = slice === null ? '' : ` of slice ${slice}`;
      const since = statusSince === undefined ? '' : ` since ${formatTime(statusSince)}`;
      if (phase === 'waiting') showProblem(`Waiting for report ${id}${place}`, `${status}${since}.`);
    }
    if (lastIncident && lastIncident.kind !== 'wait') showProblem(lastIncident.error, lastIncident.message);
    for (const { slice, error, message } of slices?.setAside ?? []) {
      showProblem(`${slices?.parents ? 'Parent' : 'Slice'} ${slice} is set aside: ${error}`, message);
    }
  }

  /** @param {Run} run */
  function figuresOfRun(run) {
    const duration = durationMs(run);
    return [
      ['Pages', formatNumber(run.pages)],
      ['Reports', formatReports(run.reports)],
      ['Size', formatBytes(run.bytes)],
      [run.state === 'running' ? 'Duration so far' : 'Duration', formatDuration(duration)],
      // Not meaningful for a run of one page or less than a second.
      ['Pages per minute', run.pages > 1 && duration >= 1e3 ? formatNumber((run.pages * 60e3) / duration) : null],
    ];
  }

  /**
   * @param {Run} run
   * @param {Point[]} points
   */
  function factsOfRun(run, points) {
    const { slices, latency, lastIncident } = run;
    const sumOf = (valueOf) => points.reduce((sum, point) => sum + valueOf(point), 0);
    const waited = sumOf(({ waited: ms }) => ms);
    const adoptedPages = sumOf(({ pages, timedPages }) => pages - timedPages);
    const latencies = latency ? [latency.median, latency.p95, latency.max] : [];
    const wait = lastIncident?.kind === 'wait' ? lastIncident : null;
    return [
      ['Run', code(run.run)],
      [run.bounded ? 'Reports dated from (bounded run)' : 'Reports dated from', formatPeriod(run)],
      ['Started', formatTime(run.startedAt)],
      [run.completedAt === null ? 'Last active' : 'Completed', formatTime(lastActiveMs(run))],
      ...factsOfSlices(slices),
      ['Time to response: median, p95, longest', latency && latencies.map(formatDuration).join(', ')],
      ['Adopted pages, without times', adoptedPages === 0 ? null : formatNumber(adoptedPages)],
      ['Failed attempts', formatNumber(sumOf(({ failedAttempts }) => failedAttempts))],
      ['Waits requested by the service', waited === 0 ? 'none' : formatDuration(waited)],
      ['Last wait', wait && `${wait.seconds} s from ${formatTime(wait.at)}`],
    ];
  }

  /** @param {Run['slices']} slices */
  function factsOfSlices(slices) {
    if (slices === null) return [];
    const { done, count, parents } = slices;
    return [
      [parents ? 'Parents' : 'Slices', `${formatNumber(done)} of ${formatNumber(count)} done`],
      ['Parents that are gone', parents?.gone ? formatNumber(parents.gone) : null],
      ['Skipped parents', parents?.skipped ? formatNumber(parents.skipped) : null],
    ];
  }

  /** @param {Run} run */
  const factsOfRequest = ({ request }) => [
    ['Service', code(request?.service ?? 'unknown')],
    ['Filter', code(request?.filter ?? 'unknown')],
    ['Format', request && `${request.format}, container ${request.container}`],
    ['Page size', request && (request.size === null ? 'default of the service' : plural(request.size, 'report'))],
  ];

  /**
   * @param {Run} run
   * @param {string} deploymentOption
   */
  function factsOfFiles(run, deploymentOption) {
    const canVerify = run.state !== 'empty';
    const verify = `npx --no -- report-exporter verify ${run.export} --run ${run.run} ${deploymentOption}`;
    return [
      ['Manifest', run.manifest === null ? 'not written; nothing is published' : code(run.manifest)],
      ['Folder', code(run.folder)],
      ['To compare the files with the page log', canVerify ? code(verify) : null],
    ];
  }

  /** @param {Run} run */
  function outcomeOf({ state, pages }) {
    const place = pages === 0 ? 'before its first page' : `after page ${formatNumber(pages)}`;
    return {
      completed: 'Exported every matching report.',
      empty: 'Found no reports. Nothing is published, because publishEmptyRuns is false.',
      running: 'In progress. Nothing is published before the last page.',
      failed: `Failed ${place}. Nothing is published. The next start resumes or replaces the run.`,
      interrupted: `Interrupted ${place}; no execution is running. Nothing is published. The next start resumes the run.`,
      damaged: 'Exported every matching report. But its manifest is missing or was changed: do not rely on this run.',
    }[state];
  }

  /**
   * The points, each with the number of its last page in the order of time.
   * @param {Run['points']} columns
   * @returns {Point[]}
   */
  function pointsOf(columns) {
    let lastPage = 0;
    return columns.pages.map((pages, index) => {
      lastPage += pages;
      const values = Object.entries(columns).map(([name, column]) => [name, column[index]]);
      return { ...Object.fromEntries(values), lastPage };
    });
  }

  const meanText = (sum, count, format) => (count === 0 ? '–' : format(sum / count));
  const pageNumbers = ({ pages, lastPage }) =>
    `${pages === 1 ? '' : `${formatNumber(lastPage - pages + 1)}–`}${formatNumber(lastPage)}`;

  const pointColumns = [
    ['Logged by', ({ loggedAt }) => formatTime(loggedAt)],
    ['Pages', pageNumbers],
    ['Failed attempts', ({ failedAttempts }) => formatNumber(failedAttempts), 'number'],
    ['Waited', ({ waited }) => formatDuration(waited), 'number'],
    ['Response', ({ latency, timedPages }) => meanText(latency, timedPages, formatDuration), 'number'],
    ['Longest', ({ maxLatency, timedPages }) => meanText(maxLatency, Math.sign(timedPages), formatDuration), 'number'],
    ['Transfer', ({ transfer, timedPages }) => meanText(transfer, timedPages, formatDuration), 'number'],
    ['Size', ({ bytes, pages }) => meanText(bytes, pages, formatBytes), 'number'],
  ];
  const reportsColumn = ['Reports', ({ reports, pages }) => meanText(reports, pages, formatNumber), 'number'];

  /**
   * A table, and charts that have the time from the start to the end of the run, and the same cursor.
   * @param {Run} run
   * @param {Point[]} points
   */
  function showPoints(run, points) {
    find('#points').hidden = false;
    const columns = run.reports === null ? pointColumns : [...pointColumns, reportsColumn];
    fillTable(find('#all-pages'), columns, points);

    const newest = points[points.length - 1];
    const end = Math.max(lastActiveMs(run), newest.loggedAt);
    const times = [Date.parse(run.startedAt), ...points.map(({ loggedAt }) => loggedAt), end];
    const column = (valueOf) => [null, ...points.map(valueOf), null];
    const mean = (sum, count) => column((point) => (point[count] === 0 ? null : point[sum] / point[count]));
    const isGrouped = points.some(({ pages }) => pages > 1);
    /** The highest value of each point, if a point is several pages. */
    const peaks = (max) =>
      isGrouped ? [{ label: 'Highest', color: 'peak', values: column((point) => point[max]) }] : [];
    /** Dots at the pages that something delayed. */
    const marks = (label, color, amount, format) => ({
      label,
      color,
      isMark: true,
      values: column((point) => (point[amount] === 0 ? null : point.lastPage)),
      textOf: (index) => format(points[index - 1][amount]),
    });
    const logged = [0, ...points.map(({ lastPage }) => lastPage), newest.lastPage];
    const draw = () => [
      drawChart('#logged-chart', { times, axis: countAxis }, [
        { label: 'Pages logged', color: 'accent', values: logged, isStepped: true },
        ...[
          marks('Waited', 'wait', 'waited', formatDuration),
          marks('Failed attempts', 'bad', 'failedAttempts', formatNumber),
        ].filter(({ values }) => values.some((value) => value !== null)),
      ]),
      drawChart('#time-chart', { times, axis: durationAxis }, [
        ...peaks('maxLatency'),
        { label: 'Until the response', color: 'accent', values: mean('latency', 'timedPages') },
        { label: 'Transfer, storage, logging', color: 'good', values: mean('transfer', 'timedPages') },
      ]),
      drawChart('#size-chart', { times, axis: byteAxis }, [
        ...peaks('maxBytes'),
        { label: isGrouped ? 'Mean' : 'Size', color: 'accent', values: mean('bytes', 'pages') },
      ]),
    ];
    let plots = draw();
    addEventListener('resize', () => plots.forEach((plot) => plot.setSize(sizeOf(plot.root.parentElement))));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
      for (const plot of plots) plot.destroy();
      plots = draw();
    });
  }

  /* One chart */

  /** Steps between the labels of an axis. */
  const decimalSteps = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
  const timeSteps = [
    ...[1, 2, 5, 10, 15, 30].flatMap((count) => [count * 1e3, count * 60e3]),
    ...[1, 2, 6, 12].map((count) => count * 3_600e3),
  ];
  const countAxis = { format: formatNumber, steps: decimalSteps };
  const byteAxis = { format: formatBytes, steps: decimalSteps };
  const durationAxis = {
    format: formatDuration,
    steps: [...decimalSteps.filter((step) => step < 1e3), ...timeSteps.sort((one, other) => one - other)],
  };

  const sizeOf = (container) => ({ width: container.clientWidth, height: 220 });

  /** A color of the styles, for a canvas. */
  function colorOf(name) {
    const sample = document.body.appendChild(element('span', { style: `color: var(--${name})` }));
    const { color } = getComputedStyle(sample);
    sample.remove();
    return color;
  }

  function drawChart(selector, { times, axis: { format, steps } }, series) {
    const axis = { stroke: colorOf('quiet'), grid: { stroke: colorOf('rule'), width: 1 }, ticks: { show: false } };
    const container = find(selector);
    const options = {
      ...sizeOf(container),
      // Times are in milliseconds. A date looks like UTC in the time zone of the browser.
      ms: 1,
      tzDate: (ms) => uPlot.tzDate(new Date(ms), 'Etc/UTC'),
      cursor: { y: false, sync: { key: 'run' } },
      scales: {
        x: { range: (_, min, max) => (max > min ? [min, max] : [min - 1, max + 1]) },
        y: { range: (_, _min, max) => [0, Math.max(1, max * 1.05)] },
      },
      axes: [
        // After the axis and the space, uPlot passes the distance between labels.
        { ...axis, space: 90, values: (_, splits, ...more) => timeLabels(splits, more[2]) },
        {
          ...axis,
          size: 70,
          incrs: steps,
          values: (_, splits) => splits.map((value) => (value === 0 ? '0' : format(value))),
        },
      ],
      series: [
        { label: 'Time', value: (_, ms) => (ms === null ? '' : formatTime(ms)) },
        ...series.map(({ label, color, isStepped, isMark, textOf }) => ({
          label,
          stroke: colorOf(color),
          width: isMark ? 0 : 1.5,
          points: isMark ? { show: true, size: 7, fill: colorOf(color) } : {},
          spanGaps: isStepped,
          paths: isStepped ? uPlot.paths.stepped?.({ align: 1 }) : undefined,
          value: (_, value, _series, index) => {
            if (index === null) return '';
            return value === null ? '–' : textOf ? textOf(index) : format(value);
          },
        })),
      ],
    };
    return new uPlot(/** @type {any} */ (options), [times, ...series.map(({ values }) => values)], container);
  }

  /** `02:00:30`, with the date where it changes. */
  const timeLabels = (splits, increment) =>
    splits.map((ms, index) => {
      const [date, time] = new Date(ms).toISOString().split('T');
      const isNewDate = date !== new Date(splits[index - 1] ?? 0).toISOString().split('T')[0];
      const text = time.slice(0, increment < 1e3 ? 12 : increment < 60e3 ? 8 : 5);
      return isNewDate ? `${text}\n${date}` : text;
    });

  showRun(data);
})();
