/*
 * Draws the charts of the run report. Runs in the browser, after uPlot, with the values of the element `run-data`
 * (`chartData` in charts.ts). A text next to each chart states the same facts.
 */
(() => {
  const { uPlot } = window;
  const data = JSON.parse(document.getElementById('run-data').textContent);
  const isNarrow = matchMedia('(width < 40rem)');

  /* Formats */

  const formatNumber = (value) => value.toLocaleString('en', { maximumFractionDigits: Math.abs(value) < 100 ? 1 : 0 });

  /** In the largest unit of which there is at least one. */
  const inUnits = (units) => (value) => {
    const [unit, size] = units.findLast(([, size]) => value >= size) ?? units[0];
    return `${formatNumber(value / size)} ${unit}`;
  };
  const formatDuration = inUnits(Object.entries({ ms: 1, s: 1e3, min: 60e3, h: 3_600e3, d: 86_400e3 }));
  const formatBytes = inUnits(Object.entries({ B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 }));

  /** uPlot formats a date in the time zone of the browser: this one looks like UTC there. */
  const toUtc = (seconds) => uPlot.tzDate(new Date(seconds * 1e3), 'Etc/UTC');
  const formatTime = uPlot.fmtDate('{D} {MMM}, {HH}:{mm}:{ss} UTC');

  const decimalSteps = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
  const clockSteps = [0.25, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 720].map((minutes) => minutes * 60e3);
  const daySteps = decimalSteps.slice(0, 12).map((days) => days * 86_400e3);
  const durationSteps = [...decimalSteps.filter((ms) => ms <= 10e3), ...clockSteps, ...daySteps];

  /* Colors: those of the styles, which depend on the color scheme */

  const sample = document.body.appendChild(document.createElement('span'));
  const color = (name, alpha = 1) => {
    sample.style.color = `var(--${name})`;
    return getComputedStyle(sample).color.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);
  };

  /* One chart */

  const axis = (options) => ({
    stroke: color('quiet'),
    font: `12px ${getComputedStyle(document.body).fontFamily}`,
    grid: { stroke: color('faint'), width: 1 },
    ticks: { show: false },
    ...options,
  });

  /** Draws into the element `id`, if the page has it. Each of `series` has its column of values. */
  const drawChart = (
    id,
    { height, x, xAxis, xValues, top, format, steps, series, describe, note = '', ...options },
  ) => {
    const container = document.getElementById(id);
    const readout = document.getElementById(`${id}-readout`);
    if (container === null) return [];
    const currentHeight = () => (isNarrow.matches ? Math.round(height * 0.8) : height);
    const { axes = [], hooks = {}, cursor = {}, bands = [], rightPadding = 58 } = options;
    const showReadout = ({ cursor: { idx, left } }) => {
      readout.textContent = typeof idx !== 'number' || left < 0 ? note : describe(idx);
    };
    const plot = new uPlot(
      {
        width: container.clientWidth,
        height: currentHeight(),
        padding: [10, axes.length > 0 ? 0 : rightPadding, 0, 0],
        legend: { show: false },
        cursor: { y: false, points: { show: false }, drag: { x: true, y: false }, ...cursor },
        tzDate: toUtc,
        scales: { x, y: { range: () => [0, top] } },
        axes: [
          axis({ gap: 6, grid: { show: false }, ...xAxis }),
          axis({
            size: isNarrow.matches ? 54 : 64,
            gap: 8,
            space: 30,
            incrs: steps,
            values: (_, splits) => splits.map((value) => (value === 0 ? '0' : format(value))),
          }),
          ...axes,
        ],
        series: [{}, ...series.map((style) => ({ width: 0, points: { show: false }, ...style }))],
        bands,
        hooks: { ...hooks, setCursor: [showReadout] },
      },
      [xValues, ...series.map(({ column }) => column)],
      container,
    );
    return [{ container, plot, height: currentHeight }];
  };

  /* Pages over time */

  const drawTimeline = () => {
    const { start, end, firstPage, pages, loggedAt, waits, attempts, failures } = data;
    const lastPage = firstPage.at(-1) + pages.at(-1) - 1;
    // From page 0 at the start to the last page at the end of the run.
    const times = [start, ...loggedAt, Math.max(end, loggedAt.at(-1))];
    const logged = [0, ...firstPage.map((first, index) => first + pages[index] - 1), lastPage];
    const latest = times.at(-1);
    const margin = Math.max((latest - start) * 0.01, 0.005);
    const pagesLoggedBy = (time) => logged[times.findLastIndex((loggedTime) => loggedTime <= time)] ?? 0;

    /** Paints onto the chart, in pixels of the canvas. Marks at the top extend a little above it. */
    const painting = (paint) => (u) => {
      const { ctx, bbox } = u;
      const ratio = devicePixelRatio;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top - 8 * ratio, bbox.width, bbox.height + 8 * ratio);
      ctx.clip();
      paint({
        ctx,
        ratio,
        ...bbox,
        x: (time) => u.valToPos(time, 'x', true),
        y: (page) => u.valToPos(page, 'y', true),
      });
      ctx.restore();
    };
    const paintWaits = painting(({ ctx, ratio, top, height, x }) => {
      ctx.fillStyle = color('wait', 0.55);
      for (const [at, seconds] of waits) {
        const width = x(Math.min(at + seconds, latest)) - x(at);
        ctx.fillRect(x(at), top, Math.max(2 * ratio, width), height);
      }
    });
    const paintFailures = painting(({ ctx, ratio, top, height, x, y }) => {
      ctx.fillStyle = color('attempt');
      for (const at of failures) ctx.fillRect(x(at) - ratio, top, 2 * ratio, height);
      ctx.strokeStyle = color('page');
      ctx.lineWidth = 1.5 * ratio;
      // Many diamonds would cover the line, so they become ticks at the bottom.
      const isCrowded = attempts.length > 40;
      const radius = 5.5 * ratio;
      for (const at of attempts) {
        const [left, middle] = [x(at), y(pagesLoggedBy(at))];
        if (isCrowded) {
          ctx.fillRect(left - 0.75 * ratio, top + height - 8 * ratio, 1.5 * ratio, 8 * ratio);
          continue;
        }
        const diamond = new Path2D();
        diamond.moveTo(left, middle - radius);
        diamond.lineTo(left + radius, middle);
        diamond.lineTo(left, middle + radius);
        diamond.lineTo(left - radius, middle);
        diamond.closePath();
        ctx.stroke(diamond);
        ctx.fill(diamond);
      }
    });
    const day = '\n{D} {MMM}';
    const timeFormats = [
      [86_400, '{D} {MMM}', null, null, null, null, null, null, 1],
      [60, '{HH}:{mm}', day, null, day, null, null, null, 1],
      [1, '{HH}:{mm}:{ss}', day, null, day, null, null, null, 1],
      [0.001, '{HH}:{mm}:{ss}.{fff}', day, null, day, null, null, null, 1],
    ];
    const range = (_, min, max) =>
      max - min < 0.001 ? [min - margin, max + margin] : [min, max + (max === latest ? margin : 0)];
    // Labels with fractions of a second are wider.
    const space = latest - start < 5 ? 110 : isNarrow.matches ? 64 : 84;
    return drawChart('timeline', {
      height: 260,
      x: { time: true, range },
      xAxis: { size: 46, space, values: timeFormats },
      xValues: times,
      top: lastPage * 1.04,
      format: formatNumber,
      steps: decimalSteps,
      series: [
        {
          column: logged,
          width: 2,
          stroke: color('line'),
          fill: color('line', 0.08),
          paths: uPlot.paths.stepped({ align: 1 }),
        },
      ],
      hooks: { drawAxes: [paintWaits], draw: [paintFailures] },
      describe: (index) => {
        const slice = data.slices?.[index - 1];
        const text = `${formatTime(toUtc(times[index]))} · ${formatNumber(logged[index])} pages logged`;
        return slice === undefined ? text : `${text} · slice ${slice}`;
      },
    });
  };

  /* Values by page: each point is at the center of its pages */

  const { firstPage, pages, slices, pagesPerPoint, between, transfer, latency, bytes, reports, levels } = data;
  const centers = firstPage.map((first) => first + (pagesPerPoint - 1) / 2);
  const [firstEdge, lastEdge] = [firstPage[0] - 0.5, firstPage.at(-1) + pagesPerPoint - 0.5];

  const pagesAt = (index) => {
    const [first, last] = [firstPage[index], firstPage[index] + pages[index] - 1];
    const text = first === last ? `Page ${formatNumber(first)}` : `Pages ${formatNumber(first)}–${formatNumber(last)}`;
    return slices === undefined ? text : `${text} · slice ${slices[index]}`;
  };

  /** `page 20`, `40`, `60`. */
  const pageLabels = (_, splits) => {
    const isPage = (value) => value >= 1 && Number.isInteger(value);
    const first = splits.find(isPage);
    return splits.map((value) => (isPage(value) ? `${value === first ? 'page ' : ''}${formatNumber(value)}` : ''));
  };

  /**
   * `values` decide the scale. A few extreme ones would flatten all others: then the scale ends above the common values, and dots
   * at the top mark the points whose `highest` value is off it.
   */
  const drawPages = (id, { values, highest = values, series, describe, ...options }) => {
    const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
    const max = sorted.at(-1) || 1;
    const p95 = sorted[Math.floor(0.95 * (sorted.length - 1))] || max;
    const hasOutliers = sorted.length >= 20 && max > 4 * p95;
    const top = hasOutliers ? 2 * p95 : max * 1.08;
    const outliers = {
      column: centers.map((_, index) => (hasOutliers && highest[index] > top ? top : null)),
      stroke: color('ink'),
      paths: () => null,
      points: { show: hasOutliers, size: 5, fill: color('ink') },
    };
    return drawChart(id, {
      x: {
        time: false,
        auto: false,
        min: firstEdge,
        max: lastEdge,
        range: (_, min, max) => (min === max || min === null ? [firstEdge, lastEdge] : [min, max]),
      },
      xAxis: { size: 30, space: 60, incrs: decimalSteps, values: pageLabels },
      xValues: centers,
      top,
      series: [...series, outliers],
      describe: (index) => `${pagesAt(index)} · ${describe(index)}`,
      note: hasOutliers ? '● off the scale' : '',
      cursor: { sync: { key: 'pages', scales: ['x', null] } },
      ...options,
    });
  };

  /** Columns of three parts. Each is drawn over the previous, larger one, so its own part stays visible. */
  const drawPhases = () => {
    const sumOf = (...columns) =>
      centers.map((_, index) =>
        between[index] === null ? null : columns.reduce((sum, column) => sum + column[index], 0),
      );
    const bars = (u, ...rest) => {
      const width = (u.bbox.width * pagesPerPoint) / (u.scales.x.max - u.scales.x.min) / devicePixelRatio;
      const gap = width > 6 ? 1.5 : width > 3 ? 0.75 : 0;
      return uPlot.paths.bars({ size: [1, 40], gap, align: 0 })(u, ...rest);
    };
    const part = (name, column) => ({ column, fill: color(name), stroke: color(name), paths: bars });
    const total = sumOf(between, latency.values, transfer);
    return drawPages('phases', {
      height: 240,
      values: total,
      format: formatDuration,
      steps: durationSteps,
      series: [part('transfer', total), part('latency', sumOf(between, latency.values)), part('between', between)],
      describe: (index) =>
        between[index] === null
          ? 'adopted, no times'
          : `${formatDuration(between[index])} between pages, ${formatDuration(latency.values[index])} latency, ${formatDuration(transfer[index])} transfer`,
    });
  };

  /** A line; if a point represents several pages, their mean, with their range around it. */
  const drawLine = (id, { values, min, max }, options) => {
    const { format } = options;
    const hasPoints = values.length <= 400;
    const size = values.length > 150 ? 3.5 : 5;
    const line = {
      column: values,
      width: hasPoints ? 1 : 1.25,
      stroke: color('line'),
      points: { show: hasPoints, size, width: 0, fill: color('line') },
    };
    return drawPages(id, {
      values: max === undefined ? values : [...values, ...max],
      highest: max ?? values,
      series: max === undefined ? [line] : [{ column: min }, { column: max }, line],
      bands: max === undefined ? [] : [{ series: [2, 1], fill: color('line', 0.22) }],
      describe: (index) => {
        if (values[index] === null) return 'no data';
        const range = max === undefined ? '' : ` on average, ${format(min[index])} to ${format(max[index])}`;
        return `${format(values[index])}${range}`;
      },
      ...options,
    });
  };

  /** Dashed lines with labels to their right. */
  const levelsAxis = () => {
    const known = Object.entries(levels).filter(([, value]) => value !== null);
    const labels = known.map(([name, value]) => `${name}\n${formatDuration(value)}`);
    return axis({
      scale: 'y',
      side: 1,
      size: 58,
      gap: 6,
      stroke: color('ink'),
      grid: { stroke: color('ink'), width: 1, dash: [4, 4] },
      splits: () => known.map(([, value]) => value),
      // Lines may be too close together for two labels of two lines, or for two labels.
      values: (u, splits) => {
        const [lower, upper] = splits.map((value) => u.valToPos(value, 'y'));
        const distance = upper === undefined ? Number.POSITIVE_INFINITY : lower - upper;
        return distance < 14 ? [labels[0], null] : distance < 34 ? [labels[0], known[1][0]] : labels;
      },
    });
  };

  const drawAll = () => [
    ...drawTimeline(),
    ...drawPhases(),
    ...drawLine('latency', latency, {
      height: 220,
      format: formatDuration,
      steps: durationSteps,
      axes: [levelsAxis()],
    }),
    ...drawLine('bytes', bytes, { height: 160, format: formatBytes, steps: decimalSteps, rightPadding: 20 }),
    ...drawLine('reports', reports, { height: 160, format: formatNumber, steps: decimalSteps, rightPadding: 20 }),
  ];

  /* Redraw for another color scheme and for printing, resize with the window */

  let charts = drawAll();
  const redraw = () => {
    for (const { plot } of charts) plot.destroy();
    charts = drawAll();
  };
  const resize = (maxWidth) => {
    for (const { container, plot, height } of charts) {
      const width = Math.min(container.clientWidth, maxWidth);
      if (width > 0) plot.setSize({ width, height: height() });
    }
  };
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  new ResizeObserver(() => resize(Number.POSITIVE_INFINITY)).observe(document.querySelector('main'));
  addEventListener('beforeprint', () => {
    document.documentElement.classList.add('printing');
    redraw();
    resize(680);
  });
  addEventListener('afterprint', () => {
    document.documentElement.classList.remove('printing');
    redraw();
  });
})();
