package classification

import "strings"

// Standard returns the categories of a configuration that has none of its own, by name.
func Standard() []Category {
	all := make([]Category, len(standard))
	for i, one := range standard {
		all[i] = Category{Name: one.name, Description: one.description}
		for _, keyword := range strings.Split(one.keywords, ",") {
			all[i].Keywords = append(all[i].Keywords, strings.TrimSpace(keyword))
		}
	}
	return all
}

// standard has the categories by name. No keyword is the name of a product.
var standard = []struct{ name, description, keywords string }{
	{"calendar_and_time", "Events, meetings, reminders, schedules, dates and time zones",
		"calendar, event, meeting, appointment, reminder, schedule, availability, attendee, invite, time, timezone, time zone, clock, date, alarm, current time"},
	{"cloud_infrastructure", "Servers, containers, clusters, networks, deployments and cloud services",
		"cloud, container, cluster, kubernetes, pod, namespace, virtual machine, instance, deploy, deployment, infrastructure, terraform, serverless, region, bucket, object storage, load balancer, dns, domain, docker image, helm, vpc, cdn, worker"},
	{"commerce", "Shops, products, orders, carts, stock and shipping",
		"shop, store, product, product catalog, order, cart, checkout, sku, inventory, stock level, shipment, shipping, delivery, parcel, discount, coupon, refund, merchant, purchase, buy, sell, price"},
	{"communication", "Messages, channels, chats, threads, calls and people in them",
		"message, chat, channel, thread, reply, post message, direct message, conversation, workspace, reaction, emoji, mention, sms, phone call, voice call, notification, team, member, presence, social, tweet, followers"},
	{"customer_relations", "Contacts, leads, deals, companies, tickets of customers and campaigns",
		"crm, customer, contact, lead, deal, opportunity, pipeline, prospect, account manager, sales, support ticket, ticket, helpdesk, campaign, marketing, newsletter, subscriber, audience, feedback"},
	{"data_and_spreadsheets", "Spreadsheets, tables of figures, charts, statistics and calculations",
		"spreadsheet, sheet, worksheet, workbook, cell, row, column, formula, csv, excel, pivot, chart, plot, graph chart, statistics, dataset, dataframe, aggregate, regression, correlation, calculate, calculator, math, analytics, dashboard, report"},
	{"databases", "Databases: queries, tables, schemas, records, keys and indexes",
		"database, sql, query, select, insert, table, schema, postgresql, mysql, sqlite, record, index, transaction, nosql, document store, key value, cache, collection, migration, data source, stored procedure, join"},
	{"documents", "Documents, pages, notes, wikis, PDF and their blocks and comments",
		"document, page, note, wiki, block, paragraph, pdf, word document, slide, presentation, template, markdown, heading, comment, notebook, article, publish, rich text, page property, docx, ebook"},
	{"email", "Mail: inbox, messages with subject and recipients, drafts and attachments",
		"email, mail, inbox, mailbox, draft, recipient, subject, attachment, cc, bcc, smtp, imap, unread, send email, spam, label, forward"},
	{"files", "Files and directories: reading, writing, moving and finding them",
		"file, directory, folder, path, filesystem, file system, disk, read file, write file, move file, copy file, rename, permission, upload file, download file, archive, zip, drive, subdirectory, tree, glob, line edit"},
	{"finance", "Money: accounts, payments, invoices, stocks, currencies and taxes",
		"finance, financial, bank, payment, invoice, billing, balance, transfer, ledger, budget, expense, tax, stock, stock price, share price, ticker, portfolio, crypto, bitcoin, wallet, currency, exchange rate, loan, interest rate, subscription, trade, trading, earnings"},
	{"games", "Games, players, matches, scores and puzzles",
		"game, player, play, match, score, leaderboard, level, achievement, puzzle, chess, dice, roll, card game, quest, trivia, sport, league, tournament"},
	{"health", "Health, fitness, medicine, nutrition and sleep",
		"health, medical, medicine, patient, doctor, diagnosis, symptom, drug, dosage, clinical, hospital, disease, fitness, workout, exercise, calorie, nutrition, diet, recipe, heart rate, sleep, steps"},
	{"knowledge_and_memory", "What is remembered: facts, entities, relations, observations and thoughts",
		"knowledge, knowledge graph, memory, remember, recall, forget, entity, relation, observation, fact, graph, node, thought, thinking, insight, reasoning, semantic, ontology, context, encyclopedia, concept, memo"},
	{"machine_learning", "Models: training, inference, embeddings, prompts and data sets for them",
		"machine learning, model, train, training, inference, embedding, neural, llm, language model, prompt, completion, fine tune, classifier, predict, prediction, token, gpu, experiment, hyperparameter, vector"},
	{"maps_and_travel", "Places, addresses, routes, transport, flights and hotels",
		"map, place, address, location, coordinate, latitude, longitude, geocode, geocoding, direction, route, distance, travel, travel time, navigation, elevation, nearby, local business, restaurant, flight, airport, airline, hotel, booking, trip, train station, transit, traffic, taxi, itinerary"},
	{"media", "Images, audio, video, music and design: making, changing and playing them",
		"image, picture, photo, photograph, svg, icon, logo, design, draw, drawing, resize image, crop, color palette, audio, sound, music, song, track, playlist, album, podcast, speech, voice, transcribe, transcript, video, film, movie, subtitle, clip, camera, generate image, render, canvas"},
	{"monitoring_and_logs", "Logs, metrics, traces, alerts, incidents and the health of services",
		"log, logs, metric, trace, span, alert, incident, monitor, monitoring, uptime, observability, on call, error rate, latency, prometheus, exception, crash, stack trace, telemetry, health check, outage, slo"},
	{"project_management", "Projects, boards, tasks, sprints, milestones and who does what",
		"project, task, todo, to do, board, kanban, sprint, backlog, milestone, epic, story point, assignee, assign, due date, deadline, workflow, roadmap, time tracking, issue tracker, checklist"},
	{"security", "Vulnerabilities, secrets, access, identities, threats and certificates",
		"security, vulnerability, cve, exploit, malware, threat, scan, firewall, secret, password, credential, encrypt, decrypt, certificate, permission policy, iam, role, access control, authentication, phishing, hash, compliance, audit"},
	{"software_development", "Code, repositories, commits, branches, issues, reviews, builds, and running of code",
		"code, git, repository, commit, branch, merge, merge request, pull request, issue, fork, diff, checkout, staging, staged, unstaged, working tree, tag, release, code review, review, source code, ci, build, compile, lint, test suite, debug, debugger, refactor, package, dependency, snippet, code snippet, programming, script, run code, run command, command, shell, terminal, function, symbol, push"},
	{"weather", "Weather now and to come, air, sea and warnings of storms",
		"weather, forecast, temperature, rain, precipitation, snow, wind, humidity, storm, climate, air quality, uv index, tide, sunrise, sunset, hurricane"},
	{"web_browsing", "Web pages: opening, reading, filling in, clicking and scraping them",
		"browser, web page, webpage, page, url, website, navigate, click, element, tab, screenshot, scrape, crawl, html, dom, form field, fill form, fetch, http, css, selector, javascript, viewport, cookie, hover, mouse, press key, keyboard, dialog, network request, console message, scroll, drag, dropdown, link, robots, upload"},
	{"web_search", "Searching the web: results, news and articles of search engines",
		"web search, search the web, search engine, internet search, search result, local search, online, news, news article, article, web result, ranking, top result, image search, query string, fresh, internet"},
}
